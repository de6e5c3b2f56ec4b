"""``pyrdv bench overlap|progress|exchange|overhead``: options, words and dispatch.

What is measured is in `bench_overlap` and `bench_exchange`; what they share, in
`bench_speculation`.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from pyrdv.tools import (
    bench_arguments as arguments,
    bench_exchange as exchange,
    bench_overlap as overlap,
    bench_overlap_plots as plots,
    bench_speculation as speculation,
)

plot = plots.plot


class Benchmark(NamedTuple):
    """One of the four."""

    about: str
    measure: Callable
    sizes: str
    #: Own options: name -> (parser, default as text, metavar, help).
    own: dict


BENCHMARKS = {
    "overlap": Benchmark(overlap.ABOUT, overlap.measure_overlap, overlap.SIZES, {
        "ratio": (arguments.factor, str(overlap.RATIO), "X",
                  "work between call and Wait, in transfer times of the first mode"),
    }),
    "progress": Benchmark(overlap.ABOUT_PROGRESS, overlap.measure_progress,
                          overlap.PROGRESS_SIZES, {
        "delays": (arguments.delays, overlap.DELAYS, "A,B,…",
                   "work between call and Wait, in transfer times of the first mode"),
        "long": (arguments.factor, str(overlap.LONG_MS), "MS", "one more delay, milliseconds"),
    }),
    "exchange": Benchmark(exchange.ABOUT, exchange.measure_exchange, exchange.SIZES, {
        "ratios": (arguments.factors, exchange.RATIOS, "A,B,…",
                   "communication to computation of an iteration"),
        "models": (lambda text: [int(name) for name in
                                 arguments.some_of(("1", "2"), "a model")(text)], "1,2", "A,B",
                   "1: the receive is posted first; 2: sent first"),
    }),
    "overhead": Benchmark(exchange.ABOUT_OVERHEAD, exchange.measure_overhead,
                          exchange.OVERHEAD_SIZES, {}),
}
EPILOG = f"""\
Two ranks are started, or take the two of `pyrdv run -n 2 -m pyrdv.tools.bench …`. All modes are
measured in turns within one job. After {speculation.PAPER}; its figures are printed beside.
"""


def add_commands(commands, add_files):
    """Add the four to the subcommands of ``pyrdv bench``."""
    for name, one in BENCHMARKS.items():
        parser = commands.add_parser(
            name, help=one.about, description=f"Measure {one.about}.",
            epilog=f"{speculation.epilog()}\n\n{EPILOG}",
            formatter_class=argparse.RawDescriptionHelpFormatter)
        speculation.add_options(parser, one.sizes)
        for option, (parse, default, metavar, text) in one.own.items():
            parser.add_argument(f"--{option}", type=parse, default=parse(default),
                                metavar=metavar, help=f"{text} (default {default})")
        add_files(parser)


def run_rank(options):
    """Take part as one of two ranks; returns (status, rows, facts, more for the JSON file)."""
    one = BENCHMARKS[options.benchmark]
    return speculation.run_rank(options, one.about, one.measure)


def words(options):
    """The arguments that parse to `options` again."""
    out = [options.benchmark, *speculation.words(options)]
    for name in BENCHMARKS[options.benchmark].own:
        value = getattr(options, name)
        many = value if isinstance(value, list) else [value]
        out += [f"--{name}", ",".join(f"{number:g}" for number in many)]
    return out
