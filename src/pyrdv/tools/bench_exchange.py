"""``pyrdv bench exchange`` and ``overhead``: what speculation brings to a program, and costs.

exchange
    The data exchange of figure 15 of the paper named in `bench_speculation`, its models 1 (receive
    posted first) and 2 (sent first), over the ratio of communication to computation, as in figure
    16: on any even number of ranks, each with one or two neighbours.  Communication is the time of
    an iteration without computation in the first mode; what is produced and consumed takes that by
    the ratio, and packing a fixed share of it.
overhead
    Figure 19: messages for which RTRs are of no use.  The time beyond that of the first mode, by
    the median over the rounds of the ratio of their medians, and bytes on the wire beyond the data.
"""

import statistics
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import NamedTuple

from pyrdv.tools import (
    bench_counted as counting,
    bench_overlap_kernels as kernels,
    bench_report as report,
    bench_speculation as speculation,
)
from pyrdv.tools.bench_speculation import Ticker, percent, time_text

ABOUT = "iterations of a data exchange beside computation, models 1 and 2"
ABOUT_OVERHEAD = "what speculation costs where it is of no use: time and bytes"
SIZES, OVERHEAD_SIZES = "128K", "8,128K,1M"
RATIOS = "0.1,0.2,0.5,0.8,1,1.5,2,4"
#: Work of Pack, in communication times: an RTR that leaves before it arrives within it.
PACK = 0.05
#: Messages up to this size are surely eager, larger ones of these benchmarks surely not.
EAGER = 512
#: Iterations of a turn at the least.
ITERATIONS = 4
PAPER = {
    1: "up to 32 % shorter, at a ratio of 0.8",
    2: "up to 20 % shorter, at a ratio of 0.5",
}
PAPER_OVERHEAD = ("small messages < 1 %, large ones < 3 % without adaptation and none with it; "
                  "extra volume < 0.04 %")
#: Share of time beyond the first mode: with adaptation, without; share of bytes beyond the data.
AIMS = {"adapting": 0.01, "fixed": 0.02, "volume": 0.0002}


def measure_exchange(session, options, say):
    """All sizes, models, ratios and modes; see `bench_speculation.run_rank`."""
    rows = []
    ticker = Ticker(len(options.sizes) * len(options.models) * len(options.ratios)
                    * options.rounds * len(options.modes) * len(options.neighbours),
                    session.rank != 0)
    for size, neighbours in product(options.sizes, options.neighbours):
        loops = {mode: kernels.Exchange(comm, session.work, size, neighbours)
                 for mode, comm in session.comms.items()}
        for model in options.models:
            first = loops[options.modes[0]]
            first.run(model, 0, ITERATIONS)
            communication = session.comm.bcast(
                statistics.median(first.run(model, 0, 2 * ITERATIONS) for _ in range(3)), root=0)
            say(f"\n{report.size_text(size)}, model {model}, {neighbours} neighbours: an iteration "
                f"without computation takes {time_text(communication)}; paper: {PAPER[model]}")
            say(_exchange_head(options.modes))
            for ratio in options.ratios:
                part, refused = _exchanged(session, options, loops, model, ratio, communication,
                                           ticker)
                rows += part
                if session.rank == 0:
                    say("\n".join([*_exchange_lines(ratio, options.modes, part), *refused]))
    say("\ntime of an iteration, what it is shorter than the first mode's, and RTRs that were used")
    return rows, {"paper": {"exchange": {f"model {model}": text for model, text in PAPER.items()}}}


def _exchanged(session, options, loops, model, ratio, communication, ticker):
    """The rows of one ratio, one per mode, and lines about those refused; none on rank 1."""
    units = session.work.units(communication / ratio / 2)
    packing = session.work.units(options.pack * communication)
    computation = (2 * units + packing) * session.work.seconds
    expected = communication + computation
    iterations = max(session.count(options.seconds, expected), ITERATIONS)
    times = {mode: [] for mode in options.modes}
    counted = {mode: {} for mode in options.modes}
    for _ in range(options.rounds):
        for mode in options.modes:
            ticker.tick(f"model {model}, ratio {ratio:g}, {mode}")
            with session.counted(mode, counted[mode]):
                times[mode].append(loops[mode].run(model, units, iterations, packing))
    if session.rank:
        return [], []
    first, some = times[options.modes[0]], loops[options.modes[0]]
    ranks, neighbours = session.comm.Get_size(), len(some.ways)
    return session.keep([{
        "size": some.out[0].nbytes, "model": model, "ranks": ranks, "neighbours": neighbours,
        "ratio": ratio, "mode": mode,
        "communication": communication, "computation": computation,
        "unit": session.work.seconds,
        "iteration": statistics.median(times[mode]), "iterations": iterations,
        "improvement": 0.0 - beyond(times[mode], first), "samples": len(times[mode]),
        "usage": speculation.usage(counted[mode]), "counted": counted[mode],
    } for mode in options.modes], [
        speculation.refusal(mode, counted[mode],
                            ranks * neighbours * iterations * options.rounds)
        for mode in options.modes])


def beyond(times, first):
    """By how much the times of a mode are longer than the first mode's, in the same rounds."""
    return statistics.median(one / other for one, other in zip(times, first, strict=True)) - 1


def _exchange_head(modes):
    return f"  {'ratio':>6}" + "".join(f"{mode:>26}" for mode in modes)


def _exchange_lines(ratio, modes, rows):
    """The figures of one ratio, and below them the protocols that the messages took."""
    known = {row["mode"]: row for row in rows}
    cells = [f"{time_text(row['iteration'])} {percent(row['improvement']):>8} "
             f"{percent(row['usage'], 0):>6}" if (row := known.get(mode)) else "refused"
             for mode in modes]
    taken = [counting.text(known[mode]["counted"]) if mode in known else "" for mode in modes]
    return [f"  {ratio:>6g}" + "".join(f"{cell:>26}" for cell in cells),
            f"  {'':>6}" + "".join(f"{cell:>26}" for cell in taken)]


class Pattern(NamedTuple):
    """Messages for which an RTR is of no use.

    Attributes
    ----------
    text : str
    run : callable
        ``run(comm, size, count)``: seconds of each of `count` turns.
    messages : int
        Messages of a turn, over both ranks.
    halved : bool
        A turn is a round trip.
    small : int or None
        Bytes of each message, if not the size of the point.
    """

    text: str
    run: Callable
    messages: int
    halved: bool = False
    small: int | None = None


PATTERNS = {
    "ping-pong": Pattern("Send and Recv in turns, half a round trip", kernels.pingpong, 2, True),
    "crossing": Pattern("both send, then receive: each RTR comes too late", kernels.crossing, 2),
    "halo": Pattern("both receive, then send, and wait: RTRs may come in time",
                    partial(kernels.crossing, receive_first=True), 2),
    "mispredicted": Pattern("ping-pong of 8 B into receives of that size",
                            lambda comm, size, count: kernels.pingpong(
                                comm, 8, count, kernels.PREDICTED, size), 2, True, 8),
}


def measure_overhead(session, options, say):
    """All sizes, patterns and modes; see `bench_speculation.run_rank`."""
    rows = []
    ticker = Ticker(len(options.sizes) * len(PATTERNS) * options.rounds * len(options.modes),
                    session.rank != 0)
    say(f"paper: {PAPER_OVERHEAD}")
    for name, pattern in PATTERNS.items():
        say(f"\n{name}: {pattern.text}\n  {'':>8} {'':<14} {'time':>9} {'beyond':>8} "
            f"{'RTRs per message':>17} {'used':>6} {'extra volume':>13}  messages")
        for size in options.sizes:
            if pattern.small and size <= pattern.small:
                continue
            part, refused = _useless(session, options, name, size, ticker)
            rows += part
            for line in [*map(_overhead_line, part), *refused]:
                say(line)
    if session.device != "shm":
        say("\n" + "\n".join(verdicts(rows)))
    return rows, {"paper": {"overhead": PAPER_OVERHEAD}}


def _useless(session, options, name, size, ticker):
    """The rows of one pattern and size, one per mode, and lines about those refused."""
    pattern = PATTERNS[name]
    sent = pattern.small or size
    expected = kernels.transfer(session.comms[options.modes[0]], sent, 5)
    count = max(session.count(options.seconds, 2 * expected), 8)
    times = {mode: [] for mode in options.modes}
    counted = {mode: {} for mode in options.modes}
    for comm in session.comms.values():
        pattern.run(comm, size, 2 * count)      # also: adaptation has seen enough
    for _ in range(options.rounds):
        for mode, comm in session.comms.items():
            ticker.tick(f"{name}, {report.size_text(size)}, {mode}")
            with session.counted(mode, counted[mode]):
                found = pattern.run(comm, size, count)
            times[mode].append(statistics.median(found))
    if session.rank:
        return [], []
    messages = count * options.rounds * pattern.messages
    large = messages if sent > EAGER else 0
    return session.keep([{
        "pattern": name, "size": size, "message": sent, "mode": mode,
        "time": statistics.median(times[mode]) / (2 if pattern.halved else 1),
        "beyond": beyond(times[mode], times[options.modes[0]]),
        "rtrs_per_message": counted[mode]["rtrs_sent"] / messages,
        "volume": speculation.extra_bytes(counted[mode]) / (messages * sent),
        "samples": count * options.rounds, "usage": speculation.usage(counted[mode]),
        "counted": counted[mode],
    } for mode in options.modes], [speculation.refusal(mode, counted[mode], large)
                                   for mode in options.modes])


def _overhead_line(row):
    return (f"  {report.size_text(row['size']):>8} {row['mode']:<14} {time_text(row['time']):>9} "
            f"{percent(row['beyond']):>8} {row['rtrs_per_message']:>17.2f} "
            f"{percent(row['usage'], 0):>6} {percent(row['volume'], 4):>13}  "
            f"{counting.text(row['counted'])}")


def verdicts(rows):
    """The aims beside what the crossing of large messages found, as lines."""
    lines = []
    for row in rows:
        fixed = row["mode"].endswith("-fixed")
        if row["pattern"] == "mispredicted" or not row["mode"].startswith("indexed") \
                or row["message"] != 1 << 20:
            continue
        time = AIMS["fixed" if fixed else "adapting"]
        met = row["beyond"] <= time and row["volume"] <= AIMS["volume"]
        lines.append(
            f"  {row['pattern']}, {row['mode']}: {percent(row['beyond'], 2)} longer (aim "
            f"{percent(time, 0)}), {percent(row['volume'], 4)} more bytes (aim "
            f"{percent(AIMS['volume'], 2)}): {'met' if met else 'NOT MET'}")
    return ["aims for 1 MiB on a link whose wire is the bottleneck:", *lines] if lines else []
