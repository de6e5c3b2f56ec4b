"""The figures of a fabric between two ranks, as the cost model wants them.

Measured are the parameters of LogP as "A High-Performance Superpipeline Protocol for InfiniBand"
(Denis, 2011) uses them, on the bare fabric, without the engine:

=================  ==============================================================================
``latency``        λ: half a round trip of a WRITE of 8 bytes and the packet behind it, s
``overhead``       o: time of the thread to post one WRITE, s
``gap``            g: time between two WRITEs of 8 bytes that follow each other, s
``net``            time of a WRITE and the packet behind it, s, by size: λ + L / B_net
``read``           time of a READ from its post to its completion, s, by size
``copy``           time of a memcpy between two buffers of this size, s: L / B_copy(L)
``registration``   time to register memory of this size whose pages exist, and to deregister it,
                   s: λ_reg + L / B_reg
=================  ==============================================================================

Times that depend on the size are kept as points of a piecewise linear function, not as one
bandwidth: caches, page tables and devices bend it. Each figure is the lower quartile of samples,
for other programs can only make a message slower. Figures by which a larger message
costs much less than a smaller one are `falling`: the machine was busy.
"""

import itertools
import math
import statistics
import time

from pyrdv.calibration.pair import touched
from pyrdv.calibration.region import LOCAL, REMOTE_READ
from pyrdv.calibration.registering import registrations as timed_registrations

SMALL = 8
#: WRITEs that follow each other, for the gap between two.
ROW = 64
#: The shortest time between two readings of the clock, s, and samples of one figure.
BATCH_S = 300e-6
SAMPLES = (3, 41)
#: A WRITE or a READ that takes longer, s, is the last of its line: larger ones go on in it.
LONG = 10e-3
#: Memory that is registered in one sample, bytes.
PIECES = 32 << 20


class Ruler:
    """Repeats a loop until its figure can be trusted.

    Parameters
    ----------
    agree : callable
        From a number of this rank to that by which all go who measure the same; `alone` if this
        rank measures by itself.
    seconds : float
        Time to spend on one figure.
    most : float
        Seconds that one turn may take.

    Attributes
    ----------
    samples : int
        Samples taken so far.
    """

    def __init__(self, agree, seconds, most=math.inf):
        self.agree = agree
        self.seconds = seconds
        self.most = most
        self.samples = 0

    def counts(self, once):
        """Turns of a sample, and samples, for a turn that takes `once` seconds where it counts.

        Raises
        ------
        OSError
            On all who measure: it takes too long.
        """
        once = max(self.agree(once), 1e-8)
        if once > self.most:
            raise OSError(f"one turn takes {once:.1f} s, more than {self.most:g}")
        turns = min(1000, math.ceil(BATCH_S / once))
        return turns, max(SAMPLES[0], min(SAMPLES[1], int(self.seconds / (once * turns))))

    def figure(self, loop):
        """Lower quartile of what ``loop(turns, samples)`` returns, seconds per turn."""
        turns, samples = self.counts(quartile(loop(1, 3)))
        self.samples += samples
        return quartile(loop(turns, samples))


def alone(value):
    """What a `Ruler` goes by that measures what no other rank takes part in."""
    return value


def quartile(times):
    """The time that a quarter of `times`, two or more, are below."""
    return statistics.quantiles(times, n=4, method="inclusive")[0]


def network(pair, ruler, sizes, told=lambda what, size: None):
    """Latency, overhead and gap of WRITEs, and times by size of WRITEs and READs.

    Parameters
    ----------
    pair : Pair
    ruler : Ruler
        It agrees as `pair` does.
    sizes : sequence of int
        Bytes, growing; empty: latency, overhead and gap alone.
    told : callable, optional
        Called with what comes next, in words, and its bytes.

    Returns
    -------
    dict
        As a profile has it; the same on both sides but for ``overhead``.
    """
    memory, region, remote = pair.window(max([SMALL, *sizes]))
    meter = pair.meter

    def one(loop, what, size):
        told(what, size)
        # Only the active rank knows how long a READ takes.
        return pair.agree(ruler.figure(
            lambda turns, samples: loop(region, *remote, size, turns, samples)))

    def by_size(loop, what):
        points = []
        for size in sizes:
            points.append([size, one(loop, what, size)])
            if points[-1][1] > LONG and len(points) > 1:
                break
        return points

    found = {"latency": one(meter.writes_back_and_forth, "writes", SMALL)}
    told("writes in a row", SMALL)
    turns, samples = ruler.counts(found["latency"])
    row = ROW * turns * found["latency"]
    samples = max(SAMPLES[0], min(samples, int(ruler.seconds / max(row, 1e-8))))
    ruler.samples += samples
    rows = meter.writes_in_a_row(region, *remote, SMALL, ROW * turns, samples)
    found["gap"], found["overhead"] = (quartile(times) for times in zip(*rows, strict=True))
    found["gap"] = pair.agree(found["gap"])
    found["net"] = by_size(meter.writes_back_and_forth, "writes")
    found["read"] = by_size(meter.reads_in_a_row, "reads")
    pair.meter.swap()
    region.deregister()
    memory.close()
    return found


def copy(ruler, size):
    """Seconds of a memcpy between two buffers of `size` bytes."""
    import numpy as np

    source, sink = np.ones(size, np.uint8), np.ones(size, np.uint8)

    def loop(turns, samples):
        times = []
        for _ in range(samples):
            start = time.perf_counter()
            for _ in range(turns):
                np.copyto(sink, source)
            times.append((time.perf_counter() - start) / turns)
        return times

    return ruler.figure(loop)


def registration(fabric, ruler, size, most=PIECES):
    """Seconds of a registration and of a deregistration of memory that was written before.

    Parameters
    ----------
    fabric : Fabric
    ruler : Ruler
    size : int
        Bytes.
    most : int
        Bytes that may be registered at once, if they are not less than `size`.

    Raises
    ------
    OSError
        The system refuses it.
    """
    pieces = max(1, min(256, most // size))
    memory = touched(size * pieces)
    times = []
    try:
        for _ in range(ruler.counts(1e-6 * pieces)[1]):
            times += timed_registrations(fabric, memory, LOCAL | REMOTE_READ, pieces, 1)
    finally:
        memory.close()
    ruler.samples += len(times)
    return tuple(quartile(each) for each in zip(*times, strict=True))


def registrations(fabric, ruler, sizes, told=lambda what, size: None, most=PIECES):
    """Times of `registration` by size, up to what the system allows."""
    found = []
    for size in sizes:
        told("registrations", size)
        try:
            found.append([size, *registration(fabric, ruler, size, most)])
        except OSError:
            break
    return found


def falling(profile):
    """What costs much less for a larger size than for a smaller one; None: nothing does.

    Returns
    -------
    tuple or None
        What it is, in words, then size and seconds of the one and of the other.
    """
    for name, what in (("net", "a write"), ("read", "a read"), ("copy", "a copy")):
        points = [point[:2] for point in profile[name]]
        if name == "net":
            points.insert(0, (SMALL, profile["latency"]))
        for (small, first), (large, second) in itertools.pairwise(points):
            if first > 1.5 * second:
                return what, small, first, large, second
    return None
