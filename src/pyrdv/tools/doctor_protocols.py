"""``pyrdv doctor --protocols PROFILE``: which protocol a message takes, and what each would cost.

The choice is the engine's rule (``engine/protocols/select``) with the present settings. The times
are those of `cost_model` with what ``pyrdv tune`` measured, so they show whether the rule is a good
one here, and what a setting would change.
"""

import json
import math

from pyrdv.tools import bench_report as report, cost_model, tune

SIZES = [1024 << k for k in range(0, 15, 2)]
WAYS = ("eager", "put", "get", "get, fresh", "pipeline")
WAYS_TEXT = """\
eager: copied into a packet and out of it. put: the receive came first and has offered its buffer.
get: read by the receiver; registered before, or fresh: both sides register for this message.
pipeline: copied through registered buffers, while both sides are in the library."""


class ProfileError(Exception):
    """A file is no profile of ``pyrdv tune``; the text says why and what to do."""


def load(path):
    """The profile in a file.

    Raises
    ------
    ProfileError
    """
    again = "make one with `pyrdv tune --output FILE`"
    try:
        with open(path, encoding="utf-8") as file:
            profile = json.load(file)
    except OSError as error:
        raise ProfileError(f"cannot read {path!r}: {error.strerror}; {again}") from None
    except ValueError:
        raise ProfileError(f"{path!r} is no profile: it is no JSON; {again}") from None
    if not isinstance(profile, dict) or profile.get("schema") != tune.SCHEMA:
        found = profile.get("schema") if isinstance(profile, dict) else None
        raise ProfileError(f"{path!r} is no profile of this version: its schema is {found!r}, not "
                           f"{tune.SCHEMA!r}; {again}")
    return profile


def predicted(profile, size):
    """Seconds that a message takes by each of `WAYS`, from call to data."""
    ask = profile["latency"]
    return {
        "eager": cost_model.naive_copy(profile, size),
        "put": cost_model.net(profile, size),
        # RTS, then the READ, which asks before it brings.
        "get": 2 * ask + cost_model.net(profile, size),
        "get, fresh": 2 * ask + cost_model.naive_registration(profile, size),
        # RTS and GRANT, behind which the first chunk is copied.
        "pipeline": 2 * ask + cost_model.superpipeline(profile, size),
    }


def choice(profile, settings, size):
    """The way that the engine takes for a message of `size` bytes, and why, in words."""
    asked = settings.eager_max or profile["eager_max"]
    limit = min(asked, profile["packet_max"] - tune.HEADER)
    if size <= limit:
        source = "PYRDV_EAGER_MAX" if settings.eager_max else "of this fabric"
        return "eager", f"up to {report.size_text(limit)} ({source})"
    if settings.protocol == "pipeline":
        return "pipeline", "PYRDV_PROTOCOL=pipeline"
    spare = "" if settings.protocol == "get" else "; pipeline if the memory cannot be registered"
    if settings.speculation == "off":
        return "get", f"PYRDV_SPECULATION=off{spare}"
    return "put or get", f"whoever comes first{spare}"


def page(profile, settings):
    """Lines of the table."""
    lines = [f"Protocols between {' and '.join(profile['ends'])}, times predicted in us",
             f"  {'size':>8}  " + "  ".join(f"{way:>10}" for way in WAYS) + "  taken"]
    for size in SIZES:
        times = predicted(profile, size)
        taken, why = choice(profile, settings, size)
        cells = "  ".join(_cell(times[way]) for way in WAYS)
        lines.append(f"  {report.size_text(size):>8}  {cells}  {taken}: {why}")
    return [*lines, "", *WAYS_TEXT.splitlines()]


def _cell(seconds):
    return f"{'refused':>10}" if math.isinf(seconds) else f"{seconds * 1e6:>10.1f}"
