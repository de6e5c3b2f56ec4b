"""Predicted times of a message, after "A High-Performance Superpipeline Protocol" (Denis, 2011).

A *profile* is what ``pyrdv tune`` measures (`pyrdv.tools.tune`): a dict with ``latency`` (λ) and
``gap`` (g) in seconds, and ``net``, ``read``, ``copy`` and ``registration`` as lists of points
(size in bytes, seconds, …) of piecewise linear functions. All functions take a profile and a size
in bytes and return seconds.
"""

import math

from pyrdv.engine import profiles
from pyrdv.engine.choice import costs

#: What a profile says that it is, as the engine reads it.
SCHEMA = profiles.SCHEMA
#: Bytes that the receiver copies out at once, section 4 of the paper.
BLOCK = 4096
#: Bounds of the ratio of two chunks: below, the pipeline would not grow; above, it is no pipeline.
RATIO = (1.1, 4.0)


def net(profile, size):
    """A WRITE whose memory is registered: λ + L / B_net."""
    return costs.seconds(profile["net"], size)


def copy(profile, size):
    """A memcpy: L / B_copy(L)."""
    return costs.seconds(profile["copy"], size)


def registration(profile, size):
    """A registration and the deregistration: λ_reg + L / B_reg, or infinity where it is refused."""
    points = profile["registration"]
    if not points or size > points[-1][0] and profile.get("registration_refused"):
        return math.inf
    return costs.seconds(points, size)


def copy_bandwidth(profile, size):
    """B_copy(L), bytes per second."""
    return size / max(copy(profile, size), 1e-12)


def net_bandwidth(profile):
    """B_net, bytes per second: the slope between the two largest sizes."""
    return _slope(profile["net"])


def read_bandwidth(profile):
    """The same of READs."""
    return _slope(profile["read"])


def _slope(points):
    (small, first), (large, last) = points[-2:]
    return (large - small) / max(last - first, 1e-12)


def first_chunk(profile, size):
    """C0: what is copied while the rendezvous is under way, B_copy · 2λ, at most the message."""
    return min(size, copy_bandwidth(profile, size) * 2 * profile["latency"])


def ratio(profile, size):
    """q: how much longer each chunk is than the one before, B_copy(L) / B_net, within `RATIO`."""
    return min(max(copy_bandwidth(profile, size) / net_bandwidth(profile), RATIO[0]), RATIO[1])


def best_chunk(profile, size):
    """C_opt of a pipeline of equal chunks (equation 3), at most the message."""
    return min(size, math.sqrt(size * profile["gap"] * copy_bandwidth(profile, size) / 2))


def naive_registration(profile, size):
    """Both ends register the buffer for this message: one after the other, then the WRITE."""
    return net(profile, size) + 2 * registration(profile, size)


def naive_copy(profile, size):
    """Copied whole into registered memory, written, copied whole out of it."""
    return net(profile, size) + 2 * copy(profile, size)


def pipeline(profile, size):
    """A pipeline of chunks of the best equal size (equation 1)."""
    chunk = best_chunk(profile, size)
    return (2 * chunk / copy_bandwidth(profile, size) + size / chunk * profile["gap"]
            + net(profile, size))


def chunks(profile, size):
    """Number of chunks of a superpipeline (equation 7)."""
    q = ratio(profile, size)
    return math.log(1 + size / first_chunk(profile, size) * (q - 1), q)


def superpipeline(profile, size):
    """Growing chunks, of which the receiver copies blocks out as they land (equation 9)."""
    return (min(BLOCK, size) / copy_bandwidth(profile, size)
            + profile["gap"] * chunks(profile, size) + net(profile, size))
