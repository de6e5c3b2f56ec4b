"""``pyrdv doctor --protocols [PROFILE]``: which protocol a message takes, and what each would cost.

The choice is the engine's own: its rule (``engine/choice/rule``) is asked, with the present
settings and facts that are made up; its times (``engine/choice/costs``) are printed. Only the times
that the rule does not reckon with, those of eager and put, come from `cost_model`.
"""

import math
from contextlib import suppress

from pyrdv.engine.choice import costs, rule
from pyrdv.engine.profiles import ProfileError, load
from pyrdv.fabrics import verbs
from pyrdv.tools import bench_report as report, cost_model, doctor_figures

SIZES = [1024 << k for k in range(0, 15, 2)]
WAYS = ("eager", "placed", "put", "get", "get, fresh", "pipeline")
__all__ = ["SIZES", "ProfileError", "choice", "in_force", "load", "page", "predicted"]
#: Uses of a registration for which the table says what is cheaper.
USES = (1, 2, 4, 8, 16)
WAYS_TEXT = """\
eager: copied into a packet and out of it. placed: the same through buffers that a receiver gives to
those that send it large messages. put: the receive came first and has offered its buffer.
get: read by the receiver; registered before, or fresh: both sides register for this message.
pipeline: copied through registered buffers, while both sides are in the library."""


def in_force(settings):
    """The profile that ranks here choose by, and where it comes from, in words.

    Raises
    ------
    ProfileError
        There is none; the text says why and what to do.
    """
    device = ""
    if verbs.built():
        from pyrdv.fabrics.verbs.device import choose

        with suppress(OSError, ValueError):
            device = str(choose(**verbs.asked(settings)))
    profile, source = doctor_figures.in_force(settings, device)
    if profile is None:
        raise ProfileError(f"there are no figures: {source}; `pyrdv tune --output FILE` measures "
                           "them, and `--protocols FILE` shows them")
    return profile, source


def predicted(profile, size, buffer=0):
    """Seconds that a message takes by each of `WAYS`, from call to data."""
    fresh = costs.predict(profile, size, buffer=buffer)
    return {
        "eager": cost_model.naive_copy(profile, size),
        "placed": fresh["placed"],
        "put": cost_model.net(profile, size),
        "get": costs.predict(profile, size, 0, 0)["get"],
        "get, fresh": fresh["get"],
        "pipeline": fresh["pipeline"],
    }


def choice(profile, settings, size):
    """The way that the engine takes for a message of `size` bytes, and why, in words."""
    limit = rule.eager_limit(profile, settings.eager_max)
    pins = profile["ends"][0].startswith("verbs")

    def asked(**facts):
        return rule.explain(profile, size, eager=limit, protocol=settings.protocol, pins=pins,
                            buffer=settings.pipeline_buffer, **facts)[:2]

    way, reason = asked(waited=False)
    if way == "eager":
        source = "PYRDV_EAGER_MAX" if settings.eager_max else "of this fabric"
        return way, f"up to {report.size_text(limit)} ({source})"
    if way == "pipeline":
        spare = "; placed where there are buffers for it" \
            if asked(standing=True)[0] == "placed" else ""
        return way, f"{reason}={settings.protocol}{spare}"
    spare = "" if settings.protocol == "get" else "; pipeline if the memory cannot be registered"
    if settings.protocol == "auto" and pins:
        spare += copied(lambda uses: asked(uses=uses, standing=True)[0])
    if settings.speculation == "off" or asked(waited=False, offered=True)[0] != "put":
        return way, f"PYRDV_SPECULATION=off{spare}"
    return f"put or {way}", f"whoever comes first{spare}"


def copied(chosen):
    """When the engine would rather copy than register, in words.

    `chosen` tells the way for memory whose registration would serve so many messages.
    """
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
        times = predicted(profile, size, settings.pipeline_buffer)
        taken, why = choice(profile, settings, size)
        cells = "  ".join(_cell(times[way]) for way in WAYS)
        lines.append(f"  {report.size_text(size):>8}  {cells}  {taken}: {why}")
    return [*lines, "", *WAYS_TEXT.splitlines()]


def _cell(seconds):
    return f"{'refused':>10}" if math.isinf(seconds) else f"{seconds * 1e6:>10.1f}"
