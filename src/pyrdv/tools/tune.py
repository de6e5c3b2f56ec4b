"""``pyrdv tune``: what a message costs between two ranks here, as the cost model wants it.

`pyrdv.calibration.measuring` says what is measured, and how. A profile in which a larger message
costs much less than a smaller one is refused: the machine was busy.
"""

import argparse
import json
import math
import os
import sys

from pyrdv import files
from pyrdv.calibration import measuring
from pyrdv.tools import bare, bench_arguments as arguments, bench_report as report, cost_model

SCHEMA = cost_model.SCHEMA
SIZES = [4096 << 2 * k for k in range(7)]
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
    found = measuring.falling(profile)
    if found is None:
        return None
    what, small, first, large, second = found
    return (f"{what} of {report.size_text(small)} took {first * 1e6:.1f} us and one of "
            f"{report.size_text(large)} {second * 1e6:.1f} us")


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
    told = _progress if rank == 0 and sys.stderr.isatty() else lambda what, size: None
    pair = bare.pair_of(comm, options.fabric, "pyrdv tune")
    if pair is None:
        return 1
    found = measuring.network(pair, measuring.Ruler(pair.agree, options.seconds), SIZES, told)
    # Both ranks copy and register at once, as in a pipeline, each as often as it needs.
    ruler = measuring.Ruler(measuring.alone, options.seconds)
    told("copies", SIZES[-1])
    found["copy"] = [[size, measuring.copy(ruler, size)] for size in SIZES]
    found["registration"] = measuring.registrations(pair.fabric, ruler, SIZES, told)
    # One of them may be allowed to lock less.
    allowed = min(comm.allgather(len(found["registration"])))
    found["registration"] = found["registration"][:allowed]
    found["registration_refused"] = allowed < len(SIZES)
    if rank == 0 and sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    found["eager_max"], found["packet_max"] = pair.fabric.eager_max, pair.fabric.packet_max
    names = comm.allgather(pair.name)
    pair.close()
    if rank == 0:
        return finish(options, {"schema": SCHEMA, "ends": names,
                                "machine": report.machine_facts(), **found})
    return 0


def _progress(what, size):
    print(f"\r\x1b[K{what} of {report.size_text(size)}", end="", file=sys.stderr, flush=True)


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
