"""``pyrdv bench overlap|progress|exchange|overhead``: their options.

What is measured is in `bench_overlap` and `bench_exchange`; what they share, in
`bench_speculation`.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from pyrdv.tools import (
    bench_arguments as arguments,
    bench_exchange as exchange,
    bench_overlap as overlap,
    bench_overlap_plots as plots,
    bench_speculation as speculation,
)

EPILOG = f"""\
Two ranks are started (more by --ranks), or take those of `pyrdv run -n 2 -m pyrdv.tools.bench …`.
All modes are measured in turns within one job. After {speculation.PAPER};
its figures are printed beside.
"""


@dataclass(frozen=True)
class Benchmark:
    """One of the four, as `pyrdv.tools.bench` wants it."""

    ABOUT: str
    measure: Callable
    sizes: str
    #: Own options: name -> (parser, default as text, metavar, help).
    own: dict

    plot = staticmethod(plots.plot)

    def add_arguments(self, parser):
        """Give `parser` the options."""
        parser.epilog = f"{speculation.epilog()}\n\n{EPILOG}"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        speculation.add_options(parser, self.sizes)
        for option, (parse, default, metavar, text) in self.own.items():
            parser.add_argument(f"--{option}", type=parse, default=parse(default),
                                metavar=metavar, help=f"{text} (default {default})")

    def ranks(self, options):
        """How many ranks to start."""
        return getattr(options, "ranks", 2)

    def refusal(self):
        """Nothing stands in the way: without a device, shared memory is measured."""
        return None

    def run_rank(self, options, comm):
        """Take part as one of the ranks; returns (status, rows, facts, more)."""
        return speculation.run_rank(options, self.ABOUT, self.measure)


LEAD = (arguments.factor, "0.2", "MS",
        "milliseconds, at the least, by which the late side calls later; else 64 small messages")
BENCHMARKS = {
    "overlap": Benchmark(overlap.ABOUT, overlap.measure_overlap, overlap.SIZES, {
        "ratio": (arguments.factor, str(overlap.RATIO), "X",
                  "work between call and Wait, in transfer times of the first mode"),
        "lead": LEAD,
    }),
    "progress": Benchmark(overlap.ABOUT_PROGRESS, overlap.measure_progress,
                          overlap.PROGRESS_SIZES, {
        "delays": (arguments.delays, overlap.DELAYS, "A,B,…",
                   "work between call and Wait, in transfer times of the first mode"),
        "long": (arguments.factor, str(overlap.LONG_MS), "MS", "one more delay, milliseconds"),
        "lead": LEAD,
    }),
    "exchange": Benchmark(exchange.ABOUT, exchange.measure_exchange, exchange.SIZES, {
        "ratios": (arguments.factors, exchange.RATIOS, "A,B,…",
                   "communication to computation of an iteration"),
        "pack": (arguments.factor, str(exchange.PACK), "X",
                 "work of Pack, in communication times"),
        "ranks": (arguments.even, "2", "N", "ranks to start, an even number"),
        "neighbours": (lambda text: [int(name) for name in
                                     arguments.some_of(("1", "2"), "a number of neighbours")(text)],
                       "1,2", "A,B", "ranks with which each one exchanges"),
        "models": (lambda text: [int(name) for name in
                                 arguments.some_of(("1", "2"), "a model")(text)], "1,2", "A,B",
                   "1: the receive is posted first; 2: sent first"),
    }),
    "overhead": Benchmark(exchange.ABOUT_OVERHEAD, exchange.measure_overhead,
                          exchange.OVERHEAD_SIZES, {}),
}
