"""Profiles of ``pyrdv tune``: reading them, and what is assumed where there is none."""

import warnings

from pyrdv.engine import figures

SCHEMA = "pyrdv-tune/2"
AGAIN = "make one with `pyrdv tune --output FILE`"


class ProfileError(Exception):
    """A file is no profile of ``pyrdv tune``; the text says why and what to do."""


def _built_in(latency, gap, net, read, copy, registration):
    sizes = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
    lines = {"net": net, "read": read, "copy": copy, "registration": registration}
    return {"built_in": True, "latency": latency * 1e-6, "gap": gap * 1e-6,
            **{name: [[size, time * 1e-6] for size, time in zip(sizes, times, strict=False)]
               for name, times in lines.items()}}


#: By kind of fabric, in us: medians of nine profiles made in the test lab, each rank bound to a
#: processor. Of kinds that are not here nothing is assumed, and messages are read where they are.
BUILT_IN = {
    "rxe": _built_in(64, 54, (78, 154, 501, 1937, 7706, 30188), (60, 140, 445, 1734, 6969, 29363),
                     (.5, .6, 1.1, 2.7, 20, 85), (25, 28, 41, 94, 314, 1198)),
    "siw": _built_in(30, 36, (30, 60, 178, 666, 2657, 11382), (52, 106, 346, 1295, 5205, 20773),
                     (.5, .6, 1.2, 2.7, 20, 89), (25, 28, 38, 78, 236, 878)),
}


def load(path):
    """The profile in a file.

    Raises
    ------
    ProfileError
    """
    import json  # few programs need it

    try:
        with open(path, encoding="utf-8") as file:
            profile = json.load(file)
    except OSError as error:
        raise ProfileError(f"cannot read {path!r}: {error.strerror}; {AGAIN}") from None
    except ValueError:
        raise ProfileError(f"{path!r} is no profile: it is no JSON; {AGAIN}") from None
    if not isinstance(profile, dict) or profile.get("schema") != SCHEMA:
        found = profile.get("schema") if isinstance(profile, dict) else None
        raise ProfileError(f"{path!r} is no profile of this version: its schema is {found!r}, not "
                           f"{SCHEMA!r}; {AGAIN}")
    try:
        figures.check(profile)
        " ".join(profile["ends"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(f"{path!r} is broken: {error}; {AGAIN}") from None
    return profile


def of_fabrics(path, fabrics):
    """What is known of each fabric: from the file, or built in; None: nothing.

    A file that cannot be used is a warning: a job must not fail for want of figures.

    Parameters
    ----------
    path : str
        Empty: no file.
    fabrics : sequence of Fabric
    """
    ways = [(fabric.kind, f"verbs {fabric.device}") if hasattr(fabric, "device") else ("shm", "shm")
            for fabric in fabrics]
    profile, why = None, ""
    if path:
        try:
            profile = load(path)
        except ProfileError as error:
            why = str(error)
    found = [profile if profile and name in profile["ends"] else BUILT_IN.get(kind)
             for kind, name in ways]
    if profile and ways and not any(each is profile for each in found):
        why = (f"{path!r} was measured between {' and '.join(profile['ends'])}, and this rank uses "
               f"{' and '.join(name for _, name in ways)}; {AGAIN}")
    if why:
        warnings.warn(f"PYRDV_PROFILE is not used: {why}", stacklevel=2)
    return found
