"""``pyrdv bench``: how fast messages and starts are here, and what is hidden of them.

Started by hand it starts its own ranks with ``pyrdv run``; started as a rank it measures. The loops
themselves are in `bench_kernels`; what is printed and written in `bench_report`. A benchmark of
another shape is a module or an object of its own in `APART`, which has:

``ABOUT``                  what it measures, in words
``ranks(options)``         how many ranks to start
``add_arguments(parser)``  its options, but for ``-n`` where any number does, and those of files
``refusal()``              why it cannot run on this host, in words; or None
``run_rank(options, comm)``  measure as one rank; rank 0 prints; returns status, rows, facts, and
                           a dict of what else the JSON file holds
``plot(path, content, plt)``  draw the content of the JSON file into a PNG file
"""

import argparse
import os
import sys
import textwrap

from pyrdv import files
from pyrdv.tools import (
    bench_applications as applications,
    bench_arguments as arguments,
    bench_first_touch as first_touch,
    bench_kernels as kernels,
    bench_large as large,
    bench_npb as npb,
    bench_parasite as parasite,
    bench_pipeline as pipeline,
    bench_registration as registration,
    bench_report as report,
    bench_startup as startup,
)

SIZES = {
    "latency": "8,64,512,4K,16K,64K,256K,1M,4M",
    "bandwidth": "4K,16K,64K,256K,1M,4M",
    "rate": "8",
}
ABOUT = {
    "latency": "half round trips of blocking Send and Recv",
    "bandwidth": "windows of Isend and Irecv, Waitall, and a short acknowledgement",
    "rate": "messages per second in windows of Isend and Irecv of small messages",
}
APART = {"startup": startup, "registration": registration, "pipeline": pipeline,
         "first-touch": first_touch,
         "kernels": applications, "applications": npb, "parasite": parasite, **large.BENCHMARKS}


def add_arguments(parser):
    """Give `parser` the arguments of ``pyrdv bench``."""
    kinds = [
        textwrap.fill(f"{name}: {text}", 79, initial_indent="  ", subsequent_indent="    ")
        for name, text in kernels.BUFFERS.items()
    ]
    parser.epilog = "kinds of buffers of bandwidth:\n" + "\n".join(kinds)
    names = "|".join([*ABOUT, *APART])
    commands = parser.add_subparsers(dest="benchmark", required=True, metavar=names)
    for name, about in ABOUT.items():
        one = commands.add_parser(name, help=about, description=f"Measure {about}.")
        _add_options(one, name)
    for name, module in APART.items():
        one = commands.add_parser(name, help=module.ABOUT,
                                  description=f"Measure the {module.ABOUT}.")
        module.add_arguments(one)
        _add_files(one)


def _add_options(one, name):
    one.add_argument("-n", dest="ranks", type=arguments.even, metavar="N",
                     help="ranks to start, an even number; they work in pairs (default 2)")
    one.add_argument("--sizes", type=arguments.sizes, default=arguments.sizes(SIZES[name]),
                     metavar="A,B,…",
                     help=f"message sizes in bytes, K and M allowed (default {SIZES[name]})")
    one.add_argument("--iterations", type=arguments.positive, metavar="N",
                     help="samples per size (default: as many as the time allows)")
    one.add_argument("--seconds", type=arguments.seconds, default=0.3, metavar="S",
                     help="time per size (default 0.3)")
    if name != "latency":
        one.add_argument("--window", type=arguments.positive, default=64, metavar="N",
                         help="messages in flight (default 64)")
    if name == "bandwidth":
        one.add_argument("--buffers", type=arguments.some_of(kernels.BUFFERS, "a kind of buffers"),
                         default=["reused"], metavar="KIND,…",
                         help=f"one or more of {', '.join(kernels.BUFFERS)} (default reused)")
    one.add_argument("--pin", action="store_true", help="bind each rank to one CPU, in turn")
    _add_files(one)


def _add_files(one):
    one.add_argument("--json", metavar="FILE", help="write figures and machine facts to FILE")
    one.add_argument("--plot", metavar="FILE.png", help="draw the figures (needs matplotlib)")


def points(options):
    """Yield (label, kernel arguments) for every row that `options` ask for."""
    for kind in getattr(options, "buffers", [None]):
        for size in options.sizes:
            yield kind, size


def run_point(MPI, comm, options, kind, size):
    """Measure one row on all ranks; return it on rank 0, None elsewhere."""
    plan = kernels.Plan(options.seconds, options.iterations)
    if options.benchmark == "latency":
        return kernels.latency(MPI, comm, size, plan)
    if options.benchmark == "rate":
        return kernels.rate(MPI, comm, size, plan, options.window)
    return kernels.bandwidth(MPI, comm, size, plan, options.window, kind)


def run_rank(options):
    """Measure as one rank of a job; rank 0 prints and writes. Return the exit status."""
    from pyrdv import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    if options.benchmark in APART:
        status, rows, facts, more = APART[options.benchmark].run_rank(options, comm)
        options.ranks = size
        return write_files(options, rows, facts, more) if status == rank == 0 else status
    if size % 2 or size != (options.ranks or size):
        if rank == 0:
            wanted = options.ranks or "an even number"
            print(f"pyrdv bench: this job has {size} ranks but needs {wanted}; "
                  "start it with that number", file=sys.stderr)
        return 2
    options.ranks = size
    cpus = kernels.pin(rank) if options.pin else None
    facts = report.machine_facts() if rank == 0 else None
    if rank == 0:
        pinned = f", rank 0 on CPU {cpus}" if options.pin else ""
        print(f"{options.benchmark}: {ABOUT[options.benchmark]}; {size} ranks{pinned}")
        print(report.facts_line(facts))
        print(report.HEADER, flush=True)
    rows = []
    for kind, nbytes in points(options):
        row = run_point(MPI, comm, options, kind, nbytes)
        if row is not None:
            rows.append(row)
            print(report.row_text(row), flush=True)
    return write_files(options, rows, facts) if rank == 0 else 0


def write_files(options, rows, facts, more=None):
    """Write the JSON and PNG files that `options` name; return the exit status."""
    settings = {key: value for key, value in vars(options).items() if key not in ("json", "plot")}
    drawn = APART[options.benchmark].plot if options.benchmark in APART else report.plot
    content = report.document(options.benchmark, settings, rows, facts, **(more or {}))
    try:
        if options.json:
            report.write_json(options.json, content)
        if options.plot and rows:
            plt = report.plotting()
            if plt is None:
                return 1
            drawn(options.plot, content, plt)
    except OSError as error:
        print(f"pyrdv bench: cannot write {error.filename!r}: {error.strerror}", file=sys.stderr)
        return 1
    if refused := (more or {}).get("refused"):
        print(f"pyrdv bench: {len(refused)} rows are refused: their messages did not go by the "
              "protocol that they are named by", file=sys.stderr)
        return 1
    return 0


def is_rank():
    """Say whether this process is already a rank of a job."""
    return "PYRDV_RANK" in os.environ


def main(options, words):
    """Run ``pyrdv bench`` with `options`, parsed from `words`; return the exit status."""
    if is_rank():
        return run_rank(options)
    refusal = unwritable(options)
    if options.benchmark in APART:
        refusal = refusal or APART[options.benchmark].refusal()
    if refusal:
        print(f"pyrdv bench: {refusal}", file=sys.stderr)
        return 2
    return launch(options, words)


def unwritable(options):
    """Say in words why a file asked for cannot be written, before time is spent; else None."""
    for path in (options.json, options.plot):
        folder = os.path.dirname(os.path.abspath(path)) if path else None
        if path and (os.path.isdir(path) or not os.access(folder, os.W_OK)):
            return f"cannot write {path!r}: {folder!r} is not a folder that may be written to"
        if path and (refused := files.refusal(path)) is not None:
            return f"cannot write {path!r}: {refused.strerror}"
    if options.plot and report.plotting() is None:
        return f"{options.plot!r} cannot be drawn; leave --plot out or install matplotlib"
    return None


def launch(options, words):
    """Measure on ranks started by ``pyrdv run``, which parse `words` again; its exit status."""
    from pyrdv.tools import cli

    apart = APART.get(options.benchmark)
    ranks = apart.ranks(options) if apart else options.ranks or 2
    return cli.main(["run", "-n", str(ranks), "-m", "pyrdv.tools.bench", *words])


def _rank_main():
    parser = argparse.ArgumentParser("pyrdv bench")
    add_arguments(parser)
    words = sys.argv[1:]
    return main(parser.parse_args(words), words)


if __name__ == "__main__":
    sys.exit(_rank_main())
