"""``pyrdv bench overlap`` and ``progress``: how much of a transfer is hidden behind computation.

Figures 13 and 14 of the paper named in `bench_speculation`: one side computes between its call and
its Wait, and either side comes first.  Two measures, both of medians over all turns:

hidden share
    1 - (time in the call + time in Wait) / blocking transfer time, which is half a round trip of
    Send and Recv in the same mode.
end to end
    (communication + work - both) / min(communication, work), communication being the same scene
    without work, and both the scene with it, each until the computing side is through and the
    receiver has the data.  A device in software takes the processor away from
    the work, so a plain RDMA write of as many bytes is beside it, the *ceiling*
    (`bench_yardstick`).  Who comes second moves the data, and is compared with the side that posts
    the write; who came first, with the write's target.
"""

import statistics

from pyrdv.tools import (
    bench_counted as counting,
    bench_overlap_kernels as kernels,
    bench_report as report,
    bench_speculation as speculation,
    bench_yardstick,
)
from pyrdv.tools.bench_speculation import Ticker, percent, time_text

ABOUT = "the share of a transfer that is hidden behind computation"
ABOUT_PROGRESS = "how long messages take if one side computes instead of calling the library"
SIZES, PROGRESS_SIZES = "128K,256K,512K,1M,2M,4M", "1M"
RATIO, DELAYS, LONG_MS = 1.25, "0,0.5,1,1.5,2,3", 50.0
#: What the paper reports, by (first, side), shares hidden: current rendezvous, the new one.
PAPER = {
    ("receiver", "receiver"): "current < 10 %, new > 92 %",
    ("sender", "receiver"): "current < 10 %, new > 80 %",
    ("receiver", "sender"): "new 2 to 14 % below current",
    ("sender", "sender"): "new as good as current",
}
PAPER_PROGRESS = {
    ("receiver", "receiver"): "new: not affected by the delay",
    ("sender", "receiver"): "new: not affected by the delay",
    ("receiver", "sender"): "new: 4 to 15 % of the transfer left after the delay",
    ("sender", "sender"): "new as current",
}
#: What pyrdv aims at for 1 MiB on a link whose wire is the bottleneck.
AIMS = {"hidden": {"receiver": 0.95, "sender": 0.98}, "of_ceiling": 0.97}
SCENES = [(first, side) for first in kernels.SIDES for side in kernels.SIDES]


def scenes_text(first, side):
    """A scene in words."""
    return f"{first} first, {side} computes"


class Point:
    """All turns of one mode in one scene with one amount of work."""

    def __init__(self, session, mode, first, side, units, size, count, source=None):
        self.session, self.mode = session, mode
        self.scene = kernels.Scene(first, side, session.lead[mode], source)
        self.units, self.size, self.count = units, size, count
        self.turns = {side: [] for side in kernels.SIDES}
        self.counted = {}

    def run(self):
        """Take one turn."""
        with self.session.counted(self.mode, self.counted):
            found = kernels.messages(self.session.comms[self.mode], self.scene, self.session.work,
                                     self.units, self.size, self.count, self.session.comm)
        for side, turns in (found or {}).items():
            self.turns[side] += turns

    def get(self, name):
        """The median of a field of the computing side."""
        return statistics.median(getattr(turn, name) for turn in self.turns[self.scene.side])

    def refusal(self):
        """Why it is not its mode's, in words; None if it is."""
        return speculation.refusal(self.mode, self.counted, len(self.turns[self.scene.side]),
                                   self.scene.first == kernels.RECEIVER)

    def peer(self):
        """The time from the late side's call until the side that does not compute is done."""
        other = kernels.SIDES[kernels.SIDES[0] == self.scene.side]
        # If it came first, its own time begins a lead before the other side's call.
        return statistics.median(
            one.total - two.lead
            for one, two in zip(self.turns[other], self.turns[self.scene.side], strict=True))


def measure_overlap(session, options, say, scenes=SCENES, source=None, paper=PAPER):
    """All sizes, scenes and modes; see `bench_speculation.run_rank`, for `source` `Scene`.

    `paper` says by scene what was published.
    """
    rows, ceilings = [], []
    total = len(options.sizes) * options.rounds * (len(scenes) * len(options.modes) + 2)
    ticker = Ticker(total, session.rank != 0)
    yardstick = bench_yardstick.open_one(session, max(options.sizes))
    for size in options.sizes:
        transfers = session.transfers(size)
        base = transfers[options.modes[0]]
        units = session.work.units(options.ratio * base)
        count = session.count(options.seconds, base * (2 + options.ratio))
        say(f"\n{report.size_text(size)}: a transfer takes {time_text(base)}, the work "
            f"{time_text(units * session.work.seconds)}; {options.rounds} x {count} messages")
        ceiling = bench_yardstick.ceilings(session, yardstick, options.rounds, units, size, count,
                                           ticker)
        if ceiling:
            ceilings += ceiling.values()
            say("  ceiling, a plain RDMA write, end to end: "
                f"{percent(ceiling[bench_yardstick.POSTS]['end_to_end'])} where the side computes "
                f"that posts it, {percent(ceiling[bench_yardstick.TARGET]['end_to_end'])} where "
                "its target does")
        for first, side in scenes:
            found = _scene(session, options, (first, side, units, size, count, source), ticker)
            if session.rank == 0:
                role = bench_yardstick.TARGET if side == first else bench_yardstick.POSTS
                part, refused = session.keep(
                    [_row(mode, *points, transfers[mode], ceiling.get(role))
                     for mode, points in found.items()],
                    [bare.refusal() or both.refusal() for bare, both, _ in found.values()])
                rows += part
                told = paper.get((first, side), "")
                say("\n".join([*_overlap_table(first, side, told, part), *refused]))
    if yardstick is not None:
        yardstick.close()
    if session.rank == 0:
        say("\n" + "\n".join(NOTES))
        say("\n".join(verdicts(rows)))
    return rows, {"ceilings": ceilings, "paper": {
        "hidden": {scenes_text(*key): text for key, text in paper.items()}}}


def _scene(session, options, scene, ticker):
    """Measure one scene; returns {mode: (without work, with work, seconds of the work alone)}."""
    first, side, units, size, *more = scene
    found = {mode: (Point(session, mode, first, side, 0, size, *more),
                    Point(session, mode, *scene), [])
             for mode in options.modes}
    rank = (kernels.SENDER, kernels.RECEIVER).index(side)
    for _ in range(options.rounds):
        for mode, (bare, both, alone) in found.items():
            ticker.tick(f"{report.size_text(size)}, {scenes_text(first, side)}, {mode}")
            bare.run()
            both.run()
            alone.append(session.alone(units, rank))
    return found


def _row(mode, bare, both, alone, transfer, ceiling):
    """What is reported of one mode in one scene; times in seconds."""
    work = statistics.median(alone)
    in_calls = statistics.median(
        turn.call + turn.wait for turn in both.turns[both.scene.side])
    alone_end, both_end = (
        statistics.median(kernels.spans(point.scene, point.turns)) for point in (bare, both))
    end = kernels.end_to_end(alone_end, work, both_end)
    return {
        "size": both.size, "first": both.scene.first, "side": both.scene.side, "mode": mode,
        "transfer": transfer, "call": both.get("call"), "wait": both.get("wait"),
        "hidden": 1 - in_calls / transfer,
        "moved": statistics.mean(turn.moved for turn in both.turns[both.scene.side]),
        "communication": alone_end, "work": work,
        "both": both_end, "end_to_end": end,
        "of_ceiling": end / ceiling["end_to_end"] if ceiling else None,
        "samples": len(both.turns[both.scene.side]), "usage": speculation.usage(both.counted),
        "counted": both.counted,
    }


def _overlap_table(first, side, told, rows):
    lines = [f"  {scenes_text(first, side)}" + (f"; paper: {told}" if told else ""),
             f"    {'':<14} {'call':>9} {'wait':>9} {'hidden':>8} {'moved':>8} {'end to end':>11} "
             f"{'of ceiling':>11} {'RTRs used':>10}  messages"]
    for row in rows:
        lines.append(
            f"    {row['mode']:<14} {time_text(row['call']):>9} {time_text(row['wait']):>9} "
            f"{percent(row['hidden']):>8} {percent(row['moved'], 0):>8} "
            f"{percent(row['end_to_end']):>11} {percent(row['of_ceiling']):>11} "
            f"{percent(row['usage'], 0):>10}  {counting.text(row['counted'])}")
    return lines


NOTES = (
    "hidden: 1 - (call + wait) / blocking transfer. moved: of the messages while that side worked,",
    "by bytes at the receiver, by what its first look finds at the sender. end to end:",
    "(communication + work - both) / min(communication, work); of ceiling: beside a plain RDMA",
    "write of as many bytes. A transfer within the late side's call, as on shared memory, is",
    "hidden from the early side alone.",
)


def verdicts(rows):
    """The aims for 1 MiB beside what was found, as lines; none without RDMA or such a row."""
    lines = []
    for row in rows:
        if row["size"] != 1 << 20 or row["of_ceiling"] is None \
                or not row["mode"].startswith(("indexed", "default")):
            continue
        hidden, ceiling = AIMS["hidden"][row["side"]], AIMS["of_ceiling"]
        met = row["hidden"] >= hidden and row["of_ceiling"] >= ceiling
        lines.append(
            f"  {scenes_text(row['first'], row['side'])}, {row['mode']}: hidden "
            f"{percent(row['hidden'])} (aim {percent(hidden, 0)}), {percent(row['of_ceiling'])} of "
            f"the ceiling (aim {percent(ceiling, 0)}): {'met' if met else 'NOT MET'}")
    return ["aims for 1 MiB on a link whose wire is the bottleneck:", *lines] if lines else []


def delays(options, transfer):
    """[(text, seconds)] of the delays: multiples of the transfer time, and a long one."""
    found = [(f"{factor:g} x", factor * transfer) for factor in options.delays]
    return [*found, (f"{options.long:g} ms", options.long / 1e3)]


def measure_progress(session, options, say):
    """All sizes, scenes, delays and modes; see `bench_speculation.run_rank`."""
    rows = []
    ticker = Ticker(len(options.sizes) * len(SCENES) * options.rounds * len(options.modes)
                    * (len(options.delays) + 1), session.rank != 0)
    for size in options.sizes:
        transfer = session.transfers(size)[options.modes[0]]
        say(f"\n{report.size_text(size)}: a transfer takes {time_text(transfer)}; delays are "
            "multiples of that")
        for first, side in SCENES:
            part, refused = [], []
            for text, seconds in delays(options, transfer):
                kept, lines = delayed(session, options, (first, side), size, (text, seconds),
                                       transfer, ticker)
                part += kept
                refused += lines
            if session.rank == 0:
                rows += part
                say("\n".join([*_progress_table(first, side, part, options.modes), *refused]))
    say("\nleft: of the transfer after the delay. peer: when the other side was done, from the "
        "later\nof the two calls on; the figure that a computing side must not make longer.")
    return rows, {"paper": {"progress": {scenes_text(*key): text
                                         for key, text in PAPER_PROGRESS.items()}}}


def delayed(session, options, scene, size, delay, transfer, ticker):
    """The rows of one scene and one delay, one per mode, and lines about those refused."""
    text, seconds = delay
    units = session.work.units(seconds)
    count = session.count(options.seconds, transfer + seconds)
    points = {mode: Point(session, mode, *scene, units, size, count) for mode in options.modes}
    for _ in range(options.rounds):
        for mode, point in points.items():
            ticker.tick(f"{report.size_text(size)}, {scenes_text(*scene)}, {text}, {mode}")
            point.run()
    if session.rank:
        return [], []
    return session.keep([{
        "size": size, "first": scene[0], "side": scene[1], "mode": mode, "delay": seconds,
        "delay_text": text, "transfer": transfer, "latency": point.get("elapsed"),
        "wait": point.get("wait"), "left": point.get("wait") / transfer,
        "peer": point.peer(),
        "samples": len(point.turns[scene[1]]), "usage": speculation.usage(point.counted),
        "counted": point.counted,
    } for mode, point in points.items()], [point.refusal() for point in points.values()])


def _progress_table(first, side, rows, modes):
    lines = [f"  {scenes_text(first, side)}; paper: {PAPER_PROGRESS[first, side]}",
             "    " + " " * 8 + "".join(f"{mode:>24}" for mode in modes),
             f"    {'delay':<8}" + f"{'latency   left    peer':>24}" * len(modes)]
    for text in dict.fromkeys(row["delay_text"] for row in rows):
        cells = [f"{time_text(row['latency']):>8} {percent(row['left'], 0):>6} "
                 f"{time_text(row['peer']):>7}"
                 for row in rows if row["delay_text"] == text]
        lines.append(f"    {text:<8}" + "".join(f"{cell:>24}" for cell in cells))
    return lines
