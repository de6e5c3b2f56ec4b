"""``pyrdv bench parasite``: what progress between calls costs, and what it brings.

After Zounmevo and Afsahi, "Investigating Scenario-conscious Asynchronous Rendezvous over RDMA"
(2010), figures 2 to 5.  Messages go by READ, as there, and offers stand beside.  All modes are
measured in turns within one job.  What must hold:

1. A mode that makes progress by itself is compared with `polling`, which makes none.
2. A message needs that progress where its receive is posted first and its receiver computes; in the
   other scenarios of figure 2 a mode must not be felt.
3. Where it is needed, the sender's clock says when the message has moved: its receiver computes on.
   It is compared with a message whose receiver waits for it.
"""

import argparse
import statistics
import sys

from pyrdv import world
from pyrdv.tools import (
    bench_arguments as arguments,
    bench_npb as npb,
    bench_overlap as overlap,
    bench_overlap_kernels as kernels,
    bench_parasite_plots as plots,
    bench_report as report,
    bench_resident as resident,
    bench_speculation as speculation,
    npb_kernels,
)
from pyrdv.tools.bench_overlap_kernels import RECEIVER, SENDER
from pyrdv.tools.bench_speculation import Ticker, percent, time_text

ABOUT = "costs and gains of progress between calls: by nobody, signals, a thread, offers"
SOURCE = ("Zounmevo and Afsahi, Investigating Scenario-conscious Asynchronous Rendezvous over "
          "RDMA, 2010")
MODES = list(speculation.PROGRESS_MODES)
REFERENCE = MODES[0]
SIGNALS = ("timer", "event")
#: Of figure 2, in words.
SCENARIOS = {
    "blocking": "blocking receive",
    "sender first": "receive that does not block, sender first",
    "needed": "receive that does not block, receiver first, and it computes",
}
PAPER = {
    "blocking": "+0 µs; thread +10 µs", "sender first": "+0 µs; thread +20 µs",
    "needed": "+5 µs; thread +12 µs", "progress": "latency does not grow with the work",
    "overlap": "close to 100 %; nobody: none",
    "lu": "longer by < 0.2 % (4 ranks), < 0.9 % (32); thread > 8 %, > 22 %",
    "applications": "signals about as the thread",
    "memory": "+128 KiB for 32 ranks at most; thread +10 MB per rank",
}
AIMS = {"unneeded": 0.01, "needed": 1.2, "overlap": 0.95, "any": 0.9, "lu": 0.005, "memory": 128}
#: Parts, with the figure of each; those of two ranks need just two.
PARTS = {
    "latency": "time that a mode adds, where it is needed and where not (figure 2)",
    "progress": "latency beside computation, receiver first (figures 3a, 3b)",
    "overlap": "what hides behind computation, receiver first (figure 3c)",
    "any": "the four scenes of `bench overlap`, received from any source",
    "lu": "LU with blocking receives, which needs nobody (figure 4)",
    "applications": "waits and times of BT, CG, MG and SP (figures 5a, 5b)",
    "memory": "resident memory of a process (figure 5c)",
}
OF_TWO = ("latency", "progress", "overlap", "any")
APPLICATIONS = ("bt", "cg", "mg", "sp")
#: Those of figure 3; where processors copy, smaller ones go with their announcement.
SIZES, SIZES_SHM = "64K,512K", "128K,512K"
DELAYS, RATIO = "50,200,400,600,800,1000", "5"


def add_arguments(parser):
    """Give `parser` the options of ``pyrdv bench parasite``."""
    parser.epilog = ("parts, by figure of the paper:\n"
                     + "\n".join(f"  {name:<14} {text}" for name, text in PARTS.items())
                     + f"\n\n{speculation.epilog(MODES)}\n\nAfter {SOURCE}.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-n", dest="ranks", type=arguments.even, default=2, metavar="N",
                        help="ranks to start; more than 2 only for lu, applications and memory "
                        "(default 2)")
    parser.add_argument("--parts", type=arguments.some_of(PARTS, "a part"), metavar="NAME,…",
                        help="what to measure (default all that the number of ranks allows)")
    speculation.add_options(parser, SIZES, names=MODES, beside=f"; over shared memory {SIZES_SHM}")
    parser.set_defaults(sizes=None)
    parser.add_argument("--delays", type=arguments.delays, default=arguments.delays(DELAYS),
                        metavar="A,B,…", help=f"progress: microseconds of work (default {DELAYS})")
    parser.add_argument("--long", type=arguments.factor, default=5.0, metavar="X",
                        help="progress: one more, in transfer times (default 5)")
    parser.add_argument("--ratio", type=arguments.factor, default=arguments.factor(RATIO),
                        metavar="X", help="overlap, any, latency: work between call and Wait, in "
                        f"transfer times (default {RATIO})")
    parser.add_argument("--lead", type=arguments.factor, default=0.2, metavar="MS",
                        help="milliseconds, at the least, by which the late side calls later "
                        "(default 0.2)")
    parser.add_argument("--iterations", type=arguments.positive, metavar="N",
                        help="lu, applications: iterations of a run (default that of the kernel)")


def ranks(options):
    """How many ranks to start."""
    return options.ranks


def refusal():
    """Nothing stands in the way: without a device, shared memory is measured."""
    return None


def measure(session, options, say):
    """The parts asked for; see `bench_speculation.run_rank`."""
    rows, more = [], {"ceilings": []}
    for part in options.parts:
        say(f"\n{part}: {PARTS[part]}" + (f"; paper: {PAPER[part]}" if part in PAPER else ""))
        found, facts = MEASURED[part](session, options, say)
        rows += [row | {"part": part} for row in found]
        more["ceilings"] += facts.get("ceilings", [])
        more |= {name: value for name, value in facts.items() if name not in ("ceilings", "paper")}
    if session.rank == 0:
        say("\naims:\n" + "\n".join(
            verdicts(rows, more, not session.device.startswith("verbs"))))
    return rows, more | {"paper": {"source": SOURCE, **PAPER}}


# Figure 2 --------------------------------------------------------------------

def latency(session, options, say):
    """What each mode adds to the latency of a message; and what a signal costs on rank 1."""
    rows = []
    ticker = Ticker(len(options.sizes) * options.rounds * (len(SCENARIOS) + 1)
                    * len(options.modes), session.rank != 0)
    for size in options.sizes:
        transfer = session.transfers(size)[options.modes[0]]
        count = session.count(options.seconds, transfer * (2 + options.ratio))
        units = session.work.units(options.ratio * transfer)
        trips, points = Trips(session, options.modes, size, count), {}
        for name, first, work in (("sender first", SENDER, 0), ("waited for", RECEIVER, 0),
                                  ("needed", RECEIVER, units)):
            points[name] = {mode: overlap.Point(session, mode, first, RECEIVER, work, size, count)
                            for mode in options.modes}
        for _ in range(options.rounds):
            for mode in options.modes:
                ticker.tick(f"{report.size_text(size)}, {mode}")
                trips.run(mode)
                for modes in points.values():
                    modes[mode].run()
        if session.rank == 0:
            part, lines = _latency_rows(session, trips, points)
            rows += part
            say("\n".join([*_latency_table(size, part), *lines]))
    costs = session.comm.gather({mode: session.comms[mode].engine.mode.facts().get("cost_ns", 0)
                                 for mode in options.modes if mode in SIGNALS}, root=0)
    signal = {mode: cost * 1e-9 for mode, cost in (costs[1] if costs else {}).items()}
    if signal:
        say("  a signal costs its thread " + ", ".join(
            f"{time_text(cost)} ({mode})" for mode, cost in signal.items()) + " here")
    return rows, {"signal": signal}


class Trips:
    """Half round trips of blocking calls, by mode."""

    def __init__(self, session, modes, size, count):
        self.session, self.size, self.count = session, size, count
        self.times, self.counted = ({mode: kind() for mode in modes} for kind in (list, dict))

    def run(self, mode):
        """Take one turn."""
        with self.session.counted(mode, self.counted[mode]):
            self.times[mode] += [trip / 2 for trip in kernels.pingpong(
                self.session.comms[mode], self.size, self.count)]

    def refusal(self, mode):
        """Why it is not its mode's, in words; None if it is."""
        return speculation.refusal(mode, self.counted[mode], 2 * len(self.times[mode]))


def _latency_rows(session, trips, points):
    found = {("blocking", mode): (statistics.median(times), trips.counted[mode],
                                  trips.refusal(mode))
             for mode, times in trips.times.items()}
    found |= {("sender first", mode): (point.get("elapsed"), point.counted, point.refusal())
              for mode, point in points["sender first"].items()}
    found |= {("needed", mode): (point.peer(), point.counted, point.refusal())
              for mode, point in points["needed"].items()}
    waited = points["waited for"]
    rows, refusals = [], []
    for (name, mode), (taken, counted, refused) in found.items():
        # The first mode is the reference; of what must be progressed, where its receiver waits.
        first = next(iter(waited))
        usual = waited[first].peer() if name == "needed" else found[name, first][0]
        rows.append({"scenario": name, "size": trips.size, "mode": mode, "latency": taken,
                     "usual": usual, "added": taken - usual, "share": taken / usual - 1,
                     "samples": len(trips.times[mode]), "counted": counted})
        refusals.append(refused)
    return session.keep(rows, refusals)


def _latency_table(size, rows):
    lines = []
    for name, text in SCENARIOS.items():
        part = [row for row in rows if row["scenario"] == name]
        if part:
            lines += [f"  {report.size_text(size)}, {text}: usually {time_text(part[0]['usual'])}; "
                      f"paper: {PAPER[name]}",
                      *(f"    {row['mode']:<10} {time_text(row['latency']):>9}  added "
                        f"{1e6 * row['added']:>+10.1f} µs {percent(row['share'], 2):>9}"
                        for row in part)]
    return lines


# Figure 3 --------------------------------------------------------------------

def progress(session, options, say):
    """Latency beside computation, the receiver first."""
    rows = []
    ticker = Ticker(len(options.sizes) * options.rounds * len(options.modes)
                    * (len(options.delays) + 1), session.rank != 0)
    for size in options.sizes:
        transfer = session.transfers(size)[options.modes[0]]
        delays = [(f"{delay:g} µs", delay * 1e-6) for delay in options.delays]
        delays.append((f"{options.long:g} x", options.long * transfer))
        say(f"  {report.size_text(size)}: a transfer takes {time_text(transfer)}; latency, beyond "
            f"the work\n    {'work':<10}" + "".join(f"{mode:>12}" for mode in options.modes))
        for delay in delays:
            part, lines = overlap.delayed(session, options, (RECEIVER, RECEIVER), size, delay,
                                          transfer, ticker)
            rows += part
            known = {row["mode"]: row["latency"] - row["delay"] for row in part}
            say("\n".join([f"    {delay[0]:<10}" + "".join(
                f"{time_text(known.get(mode)):>12}" for mode in options.modes), *lines]))
    return rows, {}


def hidden(session, options, say):
    """Overlap, the receiver first."""
    return overlap.measure_overlap(session, options, say, [(RECEIVER, RECEIVER)], paper={})


def any_source(session, options, say):
    """Overlap of all four scenes, of messages from any source; nobody is offered a buffer."""
    from pyrdv import MPI

    modes = [mode for mode in options.modes if not speculation.offers(mode)]
    asked = argparse.Namespace(**vars(options) | {"modes": modes})
    return overlap.measure_overlap(session, asked, say, overlap.SCENES, MPI.ANY_SOURCE, {})


# Figures 4 and 5 -------------------------------------------------------------

def lu(session, options, say):
    """LU with blocking receives."""
    return _kernels(session, options, say, {"lu": npb_kernels.BlockingLu})


def applications(session, options, say):
    """BT, CG, MG and SP."""
    return _kernels(session, options, say,
                    {name: npb_kernels.KERNELS[name] for name in APPLICATIONS})


def _kernels(session, options, say, wanted):
    rows = []
    ticker = Ticker(len(wanted) * (options.rounds + 1) * len(options.modes), session.rank != 0)
    for name, kernel in wanted.items():
        part, lines = npb.measured(session, options, kernel, (name, "B"), ticker)
        rows += part
        say("\n".join([f"  {kernel.ABOUT}", *(
            f"    {row['mode']:<10} waits {time_text(row['wait']):>9} {percent(row['change']):>9}  "
            f"run {time_text(row['run']):>9} {percent(row['run_change'], 2):>9}"
            for row in part), *lines]))
    return rows, {}


def memory(session, options, say):
    """Resident memory of fresh processes, beyond that of the first mode's."""
    rows = []
    if session.rank == 0:
        rows = resident.measure(options.modes, session.device, options.rounds)
        say("\n".join(f"    {row['mode']:<10} {row['resident']:>8} KiB, beyond {row['of']} "
                      f"{row['beyond']:>+6} KiB; {row['threads']} threads" for row in rows))
    session.comm.bcast(None, root=0)    # the others wait
    return rows, {}


MEASURED = {"latency": latency, "progress": progress, "overlap": hidden, "any": any_source,
            "lu": lu, "applications": applications, "memory": memory}


# Judgement -------------------------------------------------------------------

def verdicts(rows, more, shm=False):
    """The aims beside what was found, as lines; over shared memory nothing needs progress."""
    lines = []

    def judge(text, value, aim, met):
        lines.append(f"  {text}: {value} (aim {aim}): {'met' if met else 'NOT MET'}")

    for row in rows:
        part, mode = row["part"], row.get("mode")
        needed = part in ("overlap", "any") or row.get("scenario") == "needed"
        if mode not in SIGNALS or needed and shm:
            continue
        size = report.size_text(row["size"]) if "size" in row else ""
        if part == "latency" and row["scenario"] != "needed":
            judge(f"{mode}, {size}, {row['scenario']}: added", percent(row["share"], 2),
                  f"<= {percent(AIMS['unneeded'], 0)}", row["share"] <= AIMS["unneeded"])
        elif part == "latency":
            cost = more["signal"].get(mode) or 0
            times = row["added"] / cost if cost else float("inf")
            judge(f"{mode}, {size}, needed: added", f"{times:.2f} signals", f"<= {AIMS['needed']}",
                  times <= AIMS["needed"])
        elif part in ("overlap", "any"):
            aim = AIMS[part]
            judge(f"{mode}, {size}, {part}, {row['first']} first, {row['side']} computes: hidden",
                  percent(row["hidden"]), f">= {percent(aim, 0)}", row["hidden"] >= aim)
        elif part == "lu":
            judge(f"{mode}, LU: longer by", percent(row["run_change"], 2),
                  f"<= {percent(AIMS['lu'])}", row["run_change"] <= AIMS["lu"])
        elif part == "memory":
            judge(f"{mode}, memory", f"{row['beyond']} KiB", f"<= {AIMS['memory']} KiB",
                  row["beyond"] <= AIMS["memory"])
    return lines


def run_rank(options, comm):
    """Measure as one rank; rank 0 prints. Returns (status, rows, facts, more)."""
    rank, ranks = comm.Get_rank(), comm.Get_size()
    two, shm = ranks == 2, world.init().fabrics()[(rank + ranks // 2) % ranks] == "shm"
    options.sizes = options.sizes or arguments.sizes(SIZES_SHM if shm else SIZES)
    if shm:
        # The processor of the late side copies, in its call: nobody is offered a buffer.
        options.modes = [mode for mode in options.modes if not speculation.offers(mode)]
    options.parts = options.parts or [part for part in PARTS if two or part not in OF_TWO]
    if not two and (wrong := [part for part in options.parts if part in OF_TWO]):
        if rank == 0:
            print(f"pyrdv bench: {', '.join(wrong)} of parasite need just two ranks; leave -n out, "
                  "or choose other --parts", file=sys.stderr)
        return 2, [], None, {}
    return speculation.run_rank(options, ABOUT, measure)


plot = plots.plot
