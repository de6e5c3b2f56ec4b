"""``pyrdv tune``: what a message costs between two ranks here, as the cost model wants it.

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
for other programs can only make a message slower. A profile in which a larger message costs much
less than a smaller one is refused: the machine was busy.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import time

from pyrdv import files
from pyrdv.tools import bare, bench_arguments as arguments, bench_report as report, cost_model

SCHEMA = cost_model.SCHEMA
SIZES = [4096 << 2 * k for k in range(7)]
SMALL = 8
#: The shortest time between two readings of the clock, s, and samples of one figure.
BATCH_S = 300e-6
SAMPLES = (3, 41)
#: A WRITE or a READ that takes longer, s, is the last of its line: larger ones go on in it.
LONG = 10e-3
#: Memory that is registered in one sample, bytes.
PIECES = 32 << 20
EPILOG = """\
Two ranks measure; started by hand they run on this host, over what joins ranks here, or over
--fabric. For two hosts, start them with `pyrdv run -n 2 --hosts A,B -m pyrdv.tools.tune`, or
with the site's launcher. Keep the machines quiet meanwhile."""


def add_arguments(parser):
    """Give `parser` the arguments of ``pyrdv tune``."""
    parser.add_argument("--fabric", choices=("auto", *bare.KINDS), default="auto",
                        help="what to measure (default auto: what joins the two ranks)")
    parser.add_argument("--output", metavar="FILE", default="pyrdv-tune.json",
                        help="the profile to write (default pyrdv-tune.json)")
    parser.add_argument("--seconds", type=arguments.seconds, default=0.2, metavar="S",
                        help="time for each figure (default 0.2; there are about 35)")


class Ruler:
    """Repeats a loop of both ranks until its figure can be trusted.

    Parameters
    ----------
    comm : Intracomm
        Rank 0 decides for both how often.
    seconds : float
        Time to spend on one figure.
    """

    def __init__(self, comm, seconds):
        self.comm = comm
        self.seconds = seconds

    def counts(self, once):
        """Turns of a sample, and samples, for a turn that takes `once` seconds at rank 0."""
        once = max(self.comm.bcast(once, root=0), 1e-8)
        turns = min(1000, math.ceil(BATCH_S / once))
        return turns, max(SAMPLES[0], min(SAMPLES[1], int(self.seconds / (once * turns))))

    def figure(self, loop):
        """Lower quartile of what ``loop(turns, samples)`` returns, seconds per turn."""
        turns, samples = self.counts(quartile(loop(1, 3)))
        return quartile(loop(turns, samples))


def quartile(times):
    """The time that a quarter of `times`, two or more, are below."""
    return statistics.quantiles(times, n=4, method="inclusive")[0]


def small(pair, ruler):
    """Latency and gap of a small WRITE, seconds."""
    found = network(pair, ruler, (), lambda what: None)
    return found["latency"], found["gap"]


def network(pair, ruler, sizes, told):
    """Latency, overhead and gap of WRITEs, and times by size of WRITEs and READs."""
    memory, region, remote = pair.window(max([SMALL, *sizes]))
    meter = pair.meter

    def one(loop, what, size):
        told(f"{what} of {report.size_text(size)}")
        return ruler.figure(lambda turns, samples: loop(region, *remote, size, turns, samples))

    def by_size(loop, what):
        points = []
        for size in sizes:
            points.append([size, one(loop, what, size)])
            if pair.comm.bcast(points[-1][1], root=0) > LONG:
                break
        return points

    found = {"latency": one(meter.writes_back_and_forth, "writes", SMALL)}
    told("writes in a row")
    turns, samples = ruler.counts(found["latency"])
    rows = meter.writes_in_a_row(region, *remote, SMALL, 64 * turns, samples)
    found["gap"], found["overhead"] = (quartile(times) for times in zip(*rows, strict=True))
    found["net"] = by_size(meter.writes_back_and_forth, "writes")
    found["read"] = by_size(meter.reads_in_a_row, "reads")
    pair.exchange(None)
    region.deregister()
    memory.close()
    return found


def copy(ruler, size):
    """Seconds of a memcpy between two buffers; both ranks copy at once, as in a pipeline."""
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


def registration(pair, ruler, size):
    """Seconds of a registration and of a deregistration of memory that was written before.

    Raises
    ------
    OSError
        On both ranks, if the system refuses it on either.
    """
    from pyrdv.instruments.fabric import LOCAL, REMOTE_READ
    from pyrdv.instruments.registering import registrations

    pieces = max(1, min(256, PIECES // size))
    memory = bare.touched(size * pieces)
    why, times = "", []
    try:
        for _ in range(ruler.counts(1e-6 * pieces)[1]):
            times += registrations(pair.fabric, memory, LOCAL | REMOTE_READ, pieces, 1)
    except OSError as error:
        why = str(error)
    memory.close()
    # Both ranks go on or stop: one of them may be allowed to lock less.
    reasons = [text for text in pair.comm.allgather(why) if text]
    if reasons:
        raise OSError(reasons[0])
    return tuple(quartile(each) for each in zip(*times, strict=True))


def registrations(pair, ruler, told):
    """Times of `registration` by size, up to what the system allows."""
    found = []
    for size in SIZES:
        told(f"registrations of {report.size_text(size)}")
        try:
            found.append([size, *registration(pair, ruler, size)])
        except OSError:
            break
    return found


def line(points):
    """Seconds for no byte, and bytes per second, of the line that fits best, relatively.

    Parameters
    ----------
    points : list of (size, seconds)
    """
    import numpy as np

    sizes, times = np.array([point[:2] for point in points]).T
    times = np.maximum(times, 1e-12)
    matrix = np.stack([1 / times, sizes / times], axis=1)
    (fixed, each), *_rest = np.linalg.lstsq(matrix, np.ones(len(times)), rcond=None)
    return float(fixed), float(1 / each) if each > 0 else math.inf


def doubt(profile):
    """Why the figures cannot be right, in words; None if they can."""
    for name, what in (("net", "a write"), ("read", "a read"), ("copy", "a copy")):
        points = [point[:2] for point in profile[name]]
        if name == "net":
            points.insert(0, (SMALL, profile["latency"]))
        for (small, first), (large, second) in itertools.pairwise(points):
            if first > 1.5 * second:
                return (f"{what} of {report.size_text(small)} took {first * 1e6:.1f} us and one of "
                        f"{report.size_text(large)} {second * 1e6:.1f} us")
    return None


def text(profile):
    """The figures as a table for the terminal."""
    out = [f"latency {profile['latency'] * 1e6:.2f} us, overhead {profile['overhead'] * 1e6:.2f} "
           f"us, gap {profile['gap'] * 1e6:.2f} us",
           f"{'size':>10}  {'write, us':>10}  {'read, us':>10}  {'copy, us':>10}  "
           f"{'register, us':>12}  "
           f"{'deregister, us':>14}"]
    registered = {size: (on, off) for size, on, off in profile["registration"]}
    written, fetched = dict(profile["net"]), dict(profile["read"])
    for size, copied in profile["copy"]:
        on, off = registered.get(size, (math.nan, math.nan))
        write, read = written.get(size, math.nan), fetched.get(size, math.nan)
        out.append(f"{report.size_text(size):>10}  {write * 1e6:>10.2f}  {read * 1e6:>10.2f}  "
                   f"{copied * 1e6:>10.2f}  {on * 1e6:>12.2f}  {off * 1e6:>14.2f}")
    large = SIZES[-1]
    out.append(f"writes {cost_model.net_bandwidth(profile) / 1e9:.2f} GB/s, reads "
               f"{cost_model.read_bandwidth(profile) / 1e9:.2f} GB/s, copies "
               f"{cost_model.copy_bandwidth(profile, large) / 1e9:.2f} GB/s; superpipeline: first "
               f"chunk {cost_model.first_chunk(profile, large) / 1024:.1f} KiB, ratio "
               f"{cost_model.ratio(profile, large):.2f}")
    if profile["registration"]:
        fixed, each = line(profile["registration"])
        out.append(f"registration {fixed * 1e6:.2f} us + {each / 1e9:.1f} GB/s")
    if len(profile["registration"]) < len(SIZES):
        out.append(f"larger regions than {len(profile['registration'])} of these sizes cannot be "
                   "registered here: see `ulimit -l`")
    return "\n".join(out)


def run_rank(options):
    """Measure as one of two ranks; rank 0 prints and writes. Returns the exit status."""
    from pyrdv import MPI

    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    told = _progress if rank == 0 and sys.stderr.isatty() else lambda what: None
    pair = bare.pair_of(comm, options.fabric, "pyrdv tune")
    if pair is None:
        return 1
    ruler = Ruler(comm, options.seconds)
    found = network(pair, ruler, SIZES, told)
    told("copies")
    found["copy"] = [[size, copy(ruler, size)] for size in SIZES]
    found["registration"] = registrations(pair, ruler, told)
    found["registration_refused"] = len(found["registration"]) < len(SIZES)
    told("")
    found["eager_max"], found["packet_max"] = pair.limits()
    names = comm.allgather(pair.name)
    pair.close()
    if rank == 0:
        return finish(options, {"schema": SCHEMA, "ends": names,
                                "machine": report.machine_facts(), **found})
    return 0


def _progress(what):
    print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def finish(options, profile):
    """Print and write the profile; returns the exit status."""
    print(f"{' - '.join(profile['ends'])}\n{report.facts_line(profile['machine'])}\n"
          f"{text(profile)}")
    why = doubt(profile)
    if why:
        print(f"pyrdv tune: {why}: the machine is busy. Nothing was written; try again when it is "
              "quiet, or with more --seconds", file=sys.stderr)
        return 1
    try:
        files.write_whole(options.output, json.dumps(profile, indent=1) + "\n")
    except OSError as error:
        return _not_written(options, error)
    print(f"written to {options.output}")
    return 0


def _not_written(options, error):
    print(f"pyrdv tune: cannot write {options.output!r}: {error.strerror}", file=sys.stderr)
    return 1


def main(options, words):
    """Run ``pyrdv tune`` with `options`, parsed from `words`; returns the exit status."""
    if "PYRDV_RANK" in os.environ:
        return run_rank(options)
    refused = files.refusal(options.output)
    if refused is not None:
        return _not_written(options, refused)
    from pyrdv.tools import cli

    return cli.main(["run", "-n", "2", "-m", "pyrdv.tools.tune", *words])


def _rank_main():
    parser = argparse.ArgumentParser("pyrdv tune")
    add_arguments(parser)
    words = sys.argv[1:]
    return main(parser.parse_args(words), words)


if __name__ == "__main__":
    sys.exit(_rank_main())
