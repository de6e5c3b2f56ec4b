"""Profiles of ``pyrdv tune``: reading them, and whose figures count."""

import warnings

from pyrdv import files
from pyrdv.engine.choice import costs

SCHEMA = "pyrdv-tune/2"
#: Bytes of a file that holds a profile, and what its figures may be at most: bytes, seconds.
ENDS_MOST = 64
SIZE_MOST = 1 << 20
BYTES_MOST = 1 << 40
TIME_MOST = 1e6
AGAIN = "make one with `pyrdv tune --output FILE`"


class ProfileError(Exception):
    """A file is no profile of ``pyrdv tune``; the text says why and what to do."""


def load(path, *, own=False):
    """The profile in a file; whatever this returns, the engine and ``pyrdv doctor`` can use.

    Parameters
    ----------
    path : str
    own : bool
        Whether it must belong to this user, and be writable by nobody else.

    Raises
    ------
    ProfileError
    """
    try:
        profile = files.read_json(path, SIZE_MOST, own=own)
    except files.FileError as error:
        what = f"{path!r} is no profile" if error.read else f"cannot read {path!r}"
        raise ProfileError(f"{what}: {error}; {AGAIN}") from None
    if not isinstance(profile, dict) or profile.get("schema") != SCHEMA:
        found = profile.get("schema") if isinstance(profile, dict) else None
        raise ProfileError(f"{path!r} is no profile of this version: its schema is "
                           f"{ascii(found)[:60]}, not {SCHEMA!r}; {AGAIN}")
    try:
        check(profile)
        costs.check(profile)
    except ValueError as error:
        raise ProfileError(f"{path!r} is broken: {error}; {AGAIN}") from None
    return profile


def check(profile):
    """Raise ValueError unless the dict `profile` has all that a profile has, and no more than fits.

    Bounds are far beyond any machine; they keep sums and products finite.
    """
    ends = profile.get("ends")
    if not isinstance(ends, list) or not 1 <= len(ends) <= ENDS_MOST \
            or not all(map(files.is_text, ends)):
        raise ValueError("'ends' must be the names of the ends, usually two")
    for name in ("latency", "gap"):
        if not files.is_number(profile.get(name), 0, TIME_MOST):
            raise ValueError("'latency' and 'gap' must be times, in seconds")
    for name in ("eager_max", "packet_max"):
        if not files.is_whole(profile.get(name), 0, BYTES_MOST):
            raise ValueError(f"{name!r} must be a number of bytes")
    if type(profile.get("registration_refused", False)) is not bool:
        raise ValueError("'registration_refused' must be true or false")
    for name, times, least in (("net", 1, 2), ("read", 1, 2), ("copy", 1, 2),
                               ("registration", 2, 0)):
        _check_line(name, profile.get(name), times, least)


def _check_line(name, points, times, least):
    if not isinstance(points, list) or len(points) < least:
        need = {0: "must be a list of points", 2: "needs a list of two points at least"}
        raise ValueError(f"{name!r} {need[least]}")
    before = 0
    for point in points:
        if not (isinstance(point, list) and len(point) == 1 + times
                and files.is_whole(point[0], before + 1, BYTES_MOST)
                and all(files.is_number(value, 0, TIME_MOST) for value in point[1:])):
            raise ValueError(f"the points of {name!r} are not times of growing sizes: "
                             f"{ascii(point)[:60]}")
        before = point[0]


def of_fabrics(path, fabrics, measured=None):
    """What is known of each fabric; None: nothing, and its messages are read where they are.

    A file that cannot be used is a warning: a job must not fail for want of figures.

    Parameters
    ----------
    path : str
        A profile, which is the master; empty: no file.
    fabrics : sequence of Fabric
    measured : dict, optional
        What was measured of the device, as a profile.
    """
    names = [f"verbs {fabric.device}" if hasattr(fabric, "device") else "shm" for fabric in fabrics]
    if not path:
        return [None if name == "shm" else measured for name in names]
    profile, why = None, ""
    try:
        profile = load(path)
    except ProfileError as error:
        why = str(error)
    found = [profile if profile and name in profile["ends"] else None for name in names]
    if profile and names and not any(found):
        why = (f"{path!r} was measured between {' and '.join(profile['ends'])}, and this rank uses "
               f"{' and '.join(names)}; {AGAIN}")
    if why:
        warnings.warn(f"PYRDV_PROFILE is not used: {why}", stacklevel=2)
    return found
