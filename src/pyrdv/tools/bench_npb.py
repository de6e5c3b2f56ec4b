"""``pyrdv bench applications``: how long applications wait for their messages, by mode.

Figures 17 to 19b of the paper named in `bench_speculation`: kernels with the non-blocking calls of
figure 18 (`npb_kernels`), each in two classes, messages of A being eager and those of B large.  A
figure is the median over the rounds: the seconds in all waits, the mean over the ranks, and the
change against the first mode in the same round.  Every result is checked outside of the clock, over
other connections.
"""

import argparse
import statistics
import time

from pyrdv.tools import (
    bench_arguments as arguments,
    bench_counted as counting,
    bench_exchange as exchange,
    bench_report as report,
    bench_speculation as speculation,
    npb_kernels as kernels,
)
from pyrdv.tools.bench_speculation import Ticker, percent, time_text

ABOUT = "time that kernels of applications wait for messages, by policy of large messages"
#: Bytes of a message.
CLASSES = {"A": 1 << 10, "B": 256 << 10}
#: Change of the wait time by the paper, and of the bytes.
PAPER = {
    ("bt", "A"): "wait -30 % (its class A is rendezvous)",
    ("cg", "A"): "wait < +2 %",
    ("cg", "B"): "wait +21 % without adaptation, +4 % with",
    ("lu", "A"): "wait -5 % (its class A is rendezvous)",
    ("radix", "B"): "wait -4 %",
    "volume": "< 0.04 % more bytes",
}
HEADER = (f"  {'':<14} {'wait':>9} {'change':>8} {'whole run':>10} {'RTRs used':>10} "
          f"{'extra packets':>14} {'extra bytes':>12}  messages")


def add_arguments(parser):
    """Give `parser` the options of ``pyrdv bench applications``."""
    parser.epilog = ("kernels:\n" + "\n".join(f"  {one.ABOUT}" for one in kernels.KERNELS.values())
                     + "\n\n" + speculation.epilog())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = speculation.available()
    parser.add_argument("-n", dest="ranks", type=arguments.even, default=4, metavar="N",
                        help="ranks to start, a power of two (default 4)")
    parser.add_argument("--kernels", type=arguments.some_of(kernels.KERNELS, "a kernel"),
                        default=list(kernels.KERNELS), metavar="NAME,…",
                        help=f"some of {', '.join(kernels.KERNELS)} (default all)")
    parser.add_argument("--classes", type=arguments.some_of(CLASSES, "a class"),
                        default=list(CLASSES), metavar="A,B",
                        help="A: messages of 1 KiB, which go eagerly; B: of 256 KiB (default both)")
    parser.add_argument("--modes", type=arguments.some_of(names, "a mode"), default=names,
                        metavar="NAME,…",
                        help="what to compare, the first being what the others are compared with: "
                        f"some of {', '.join(names)} (default all)")
    parser.add_argument("--iterations", type=arguments.positive, metavar="N",
                        help="iterations of a run (default: " + ", ".join(
                            f"{name} {one.ITERATIONS}" for name, one in kernels.KERNELS.items())
                        + ")")
    parser.add_argument("--rounds", type=arguments.positive, default=5, metavar="N",
                        help="runs of each mode (default 5, as in the paper)")
    parser.add_argument("--pin", action="store_true", help="bind each rank to one CPU, in turn")


def ranks(options):
    """How many ranks to start."""
    return options.ranks


def refusal():
    """Nothing stands in the way: without a device, shared memory is measured."""
    return None


def measure(session, options, say):
    """All kernels, classes and modes; see `bench_speculation.run_rank`."""
    rows = []
    ticker = Ticker(len(options.kernels) * len(options.classes) * (options.rounds + 1)
                    * len(options.modes), session.rank != 0)
    for name in options.kernels:
        for size in options.classes:
            part, refused = measured(session, options, kernels.KERNELS[name], (name, size), ticker)
            rows += part
            if session.rank == 0:
                say(f"\n{name}.{size}; paper: {PAPER.get((name, size), '-')}\n{HEADER}")
                say("\n".join([*map(_line, part), *refused]))
    say(f"\npaper: {PAPER['volume']}; wait: of all waits of a run, the mean over the ranks")
    return rows, {"paper": {"applications": {
        ".".join(key) if isinstance(key, tuple) else key: text for key, text in PAPER.items()}}}


def measured(session, options, kernel, called, ticker):
    """The rows of one kernel, one per mode, and lines about those refused.

    `called` is its name and that of its class.
    """
    name, size = called
    made = kernel(session.comm, CLASSES[size])
    iterations = options.iterations or kernel.ITERATIONS
    found = {mode: [] for mode in options.modes}
    counted = {mode: {} for mode in options.modes}
    for turn in range(-1, options.rounds):      # the first is not counted: connections, caches
        for mode, comm in session.comms.items():
            ticker.tick(f"{name}.{size}, {mode}")
            with session.counted(mode, counted[mode] if turn >= 0 else {}):
                start = time.perf_counter()
                waited = made.run(comm, iterations)
                taken = time.perf_counter() - start
            made.check(session.comm)
            if turn >= 0:
                found[mode].append(session.comm.allgather((waited, taken, made.sent)))
    if session.rank:
        return [], []
    waits = {mode: [statistics.mean(one[0] for one in run) for run in runs]
             for mode, runs in found.items()}
    slowest = {mode: [max(one[1] for one in run) for run in runs] for mode, runs in found.items()}
    first = options.modes[0]
    sent = sum(one[2] for run in found[first] for one in run)
    return session.keep([{
        "kernel": name, "class": size, "message": CLASSES[size], "mode": mode,
        "iterations": iterations, "samples": len(waits[mode]),
        "wait": statistics.median(waits[mode]),
        "change": exchange.beyond(waits[mode], waits[first]),
        "run": statistics.median(slowest[mode]),
        "run_change": exchange.beyond(slowest[mode], slowest[first]),
        "usage": speculation.usage(counted[mode]),
        "extra_packets": counted[mode]["extra_packets"],
        "volume": speculation.extra_bytes(counted[mode]) / sent, "counted": counted[mode],
    } for mode in options.modes], [_refusal(mode, counted[mode]) for mode in options.modes])


def _refusal(mode, counted):
    """Why a row is not its mode's: sizes vary, so that large messages are not numbered."""
    named = () if mode == "default" else ("read", "write") if speculation.offers(mode) else (
        "read",)
    return counting.refusal(counted, named)


def _line(row):
    return (f"  {row['mode']:<14} {time_text(row['wait']):>9} {percent(row['change']):>8} "
            f"{time_text(row['run']):>10} {percent(row['usage'], 0):>10} "
            f"{row['extra_packets']:>14} {percent(row['volume'], 4):>12}  "
            f"{counting.text(row['counted'])}")


def run_rank(options, comm):
    """Measure as one rank; rank 0 prints. Returns (status, rows, facts, more)."""
    return speculation.run_rank(options, ABOUT, measure)


def plot(path, content, plt):
    """Draw the bars of figure 17a, and below them those of 17b, into a PNG file."""
    rows, facts = content["rows"], content["machine"]
    names = list(dict.fromkeys(f"{row['kernel']}.{row['class']}" for row in rows))
    modes = list(content["modes"])
    figure, panels = plt.subplots(2, 1, figsize=(1.4 * len(names) + 3, 7), dpi=110,
                                  layout="constrained")
    for axes, key, text in zip(panels, ("change", "usage"),
                               ("change of the wait time, %", "RTRs used, %"), strict=True):
        for number, mode in enumerate(modes):
            part = {f"{row['kernel']}.{row['class']}": row[key] or 0 for row in rows
                    if row["mode"] == mode}
            places = [names.index(name) + (number + 0.5) / (len(modes) + 1) - 0.5 for name in part]
            axes.bar(places, [100 * value for value in part.values()], 0.9 / (len(modes) + 1),
                     label=mode)
        axes.set_xticks(range(len(names)), names)
        axes.set_ylabel(text)
        axes.grid(True, axis="y", alpha=0.4)
    panels[0].legend(fontsize=8)
    figure.suptitle(f"pyrdv {facts['pyrdv']}: applications over {content['fabric']}")
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']} ",
                ha="right", va="top", fontsize=7, color="0.4")
    report.write_picture(path, figure)
    plt.close(figure)
