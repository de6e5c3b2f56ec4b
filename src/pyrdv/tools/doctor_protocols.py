"""``pyrdv doctor --protocols PROFILE``: which protocol a message takes, and what each would cost.

The choice is the engine's rule (``engine/choice/choose``) with the present settings, and what it
reckons with, times and choice, comes from the engine's own code (``engine/choice/costs``). Only
what it does not reckon with, eager and put, comes from `cost_model`.
"""

import math

from pyrdv.engine.choice import costs
from pyrdv.engine.profiles import ProfileError, load
from pyrdv.tools import bench_report as report, cost_model, tune

SIZES = [1024 << k for k in range(0, 15, 2)]
WAYS = ("eager", "placed", "put", "get", "get, fresh", "pipeline")
__all__ = ["SIZES", "ProfileError", "choice", "load", "page", "predicted"]
#: Uses of a registration for which the table says what is cheaper.
USES = (1, 2, 4, 8, 16)
WAYS_TEXT = """\
eager: copied into a packet and out of it. placed: the same through buffers that a receiver gives to
those that send it large messages. put: the receive came first and has offered its buffer.
get: read by the receiver; registered before, or fresh: both sides register for this message.
pipeline: copied through registered buffers, while both sides are in the library."""


def predicted(profile, size):
    """Seconds that a message takes by each of `WAYS`, from call to data."""
    fresh = costs.predict(profile, size)[1]
    return {
        "eager": cost_model.naive_copy(profile, size),
        "placed": fresh["placed"],
        "put": cost_model.net(profile, size),
        "get": costs.predict(profile, size, 0, 0)[1]["get"],
        "get, fresh": fresh["get"],
        "pipeline": fresh["pipeline"],
    }


def choice(profile, settings, size):
    """The way that the engine takes for a message of `size` bytes, and why, in words."""
    asked = settings.eager_max or profile["eager_max"]
    limit = min(asked, profile["packet_max"] - tune.HEADER)
    if size <= limit:
        source = "PYRDV_EAGER_MAX" if settings.eager_max else "of this fabric"
        return "eager", f"up to {report.size_text(limit)} ({source})"
    if settings.protocol == "pipeline":
        fits = size <= (settings.pipeline_buffer or tune.BUFFER)
        spare = "; placed where there are buffers for it" if fits else ""
        return "pipeline", f"PYRDV_PROTOCOL=pipeline{spare}"
    spare = "" if settings.protocol == "get" else "; pipeline if the memory cannot be registered"
    if settings.protocol == "auto" and profile["ends"][0].startswith("verbs"):
        spare += copied(profile, size, settings.pipeline_buffer or tune.BUFFER)
    if settings.speculation == "off":
        return "get", f"PYRDV_SPECULATION=off{spare}"
    return "put or get", f"whoever comes first{spare}"


def copied(profile, size, buffer):
    """When the engine would rather copy than register, in words."""
    def chosen(uses):
        return costs.predict(profile, size, uses, uses, standing=True, buffer=buffer)[0]

    words = ""
    for way, when in (("placed", ""), ("pipeline", " while both sides wait")):
        most = max((uses for uses in USES if chosen(uses) == way), default=0)
        if chosen(0) == way:
            words += f"; {way} from any memory{when}"
        elif most:
            often = "new memory" if most == 1 else f"memory used up to {most} times"
            words += f"; {way} from {often}{when}"
    return words


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
