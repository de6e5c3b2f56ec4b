"""What ``pyrdv bench overlap``, ``progress``, ``exchange``, ``overhead`` and ``parasite`` share.

The ways to move large messages are compared in turns within one job: each *mode* has an engine and
connections of its own (`World.beside`), so all see the same machine in the same minutes.

What must hold: all ranks come to the same calls in the same order; only rank 0 knows figures and
prints.  What one rank decides (how often, how much work) it tells the others before it is done.
"""

import statistics
import sys
import time
from contextlib import contextmanager

from pyrdv import config, world
from pyrdv.tools import (
    bench_arguments as arguments,
    bench_counted as counting,
    bench_kernels,
    bench_overlap_kernels as kernels,
    bench_report as report,
)

#: Mode -> its settings and what it is.  The first is what the others are compared with.
#: Only `default` leaves the choice to the engine: all others fix what they do not name (`PINNED`).
MODES = {
    "current": ({"speculation": "off", "initial_turn": False},
                "rendezvous by read as it was before: no RTR, no initial progress turn"),
    "turn": ({"speculation": "off"}, "the initial progress turn alone"),
    "classic": ({"speculation": "classic"}, "the published policy, adapting"),
    "classic-fixed": ({"speculation": "classic", "speculation_threshold": 0},
                      "the same without adaptation"),
    "indexed": ({"speculation": "indexed"}, "RTRs that say which message they wait for, adapting"),
    "indexed-fixed": ({"speculation": "indexed", "speculation_threshold": 0},
                      "the same without adaptation"),
    "default": ({"speculation": "auto"}, "what pyrdv does by itself, with every protocol it has"),
}
#: The same of ``pyrdv bench parasite``: a rendezvous by read, and who makes progress between calls.
PROGRESS_MODES = {
    "polling": ({"speculation": "off"}, "nobody: what waits, waits for the next call"),
    "timer": ({"speculation": "off", "progress": "parasite", "parasite_trigger": "timer"},
              "a signal of a timer borrows the thread, as published"),
    "event": ({"speculation": "off", "progress": "parasite", "parasite_trigger": "event"},
              "a signal of what came in borrows the thread"),
    "thread": ({"speculation": "off", "progress": "thread"},
               "a thread that sleeps until something comes"),
    "offers": ({"speculation": "indexed"},
               "nobody, but receives offer their buffers to the sender"),
}
EVERY = MODES | PROGRESS_MODES
#: A rendezvous by read, or by write into an offered buffer, and nothing beside: no standing
#: buffers, no superpipeline, whatever the caller's environment says.
PINNED = {"protocol": "get", "standing_peers": 0, "registration_cache": "auto",
          "speculation_threshold": 80, "speculation_profile": "", "initial_turn": True,
          "progress": "polling"}
PAPER = ("Rashti and Afsahi, A Speculative and Adaptive MPI Rendezvous Protocol Over RDMA-enabled "
         "Interconnects, 2009")
RTR_BYTES = 64
#: Of so many messages whose receive came first, all missing an offer is no chance.
SURE = 7
COUNTED = (*counting.COUNTED, "rtrs_sent", "rtrs_received", "rtrs_stale", "rtrs_unused",
           "rtrs_refused", "rtrs_revoked", "rtrs_withheld", "stops_sent", "resumes_sent", "reads",
           "writes")


def available():
    """The modes that this version offers."""
    policies = config.choices("speculation")
    return [mode for mode, (settings, _) in MODES.items() if settings["speculation"] in policies]


def add_options(parser, sizes, rounds=5, names=None, beside=""):
    """Give `parser` the options of all these benchmarks, which compare `names`.

    `beside` is said of the default of the sizes.
    """
    names = names or available()
    parser.add_argument("--sizes", type=arguments.sizes, default=arguments.sizes(sizes),
                        metavar="A,B,…",
                        help=f"message sizes in bytes, K and M allowed (default {sizes}{beside})")
    parser.add_argument("--modes", type=arguments.some_of(names, "a mode"), default=names,
                        metavar="NAME,…",
                        help="what to compare, the first being what the others are compared with: "
                        f"some of {', '.join(names)} (default all)")
    parser.add_argument("--rounds", type=arguments.positive, default=rounds, metavar="N",
                        help=f"turns of each mode per point (default {rounds})")
    parser.add_argument("--seconds", type=arguments.seconds, default=0.05, metavar="S",
                        help="time of one turn at the least, for as many messages as fit into it "
                        "(default 0.05)")
    parser.add_argument("--pin", action="store_true", help="bind each rank to one CPU, in turn")


def settings(mode):
    """Knobs of the connections of a mode."""
    own = EVERY[mode][0]
    return own if mode == "default" else PINNED | own


def offers(mode):
    """Whether receives of a mode offer their buffers."""
    return EVERY[mode][0]["speculation"] != "off"


def refusal(mode, counted, messages, offered=False):
    """Why a row is not its mode's, in words; None if it is.

    Parameters
    ----------
    mode : str
    counted : dict
        Of `Session.counted`.
    messages : int
        Large messages over all ranks.
    offered : bool
        Whether each receive comes long before its message.
    """
    if mode == "default":
        return counting.refusal(counted, (), None)
    if not offers(mode):
        return counting.refusal(counted, ("read",), messages)
    return counting.refusal(counted, ("read", "write"), messages,
                            ("write",) if offered and messages >= SURE else ())


def epilog(names=None):
    """The modes in words, for ``--help``."""
    lines = [f"  {mode:<14} {EVERY[mode][1]}" for mode in names or available()]
    return "modes:\n" + "\n".join(lines)


class Ticker:
    """Tells on stderr how far rank 0 is, when something takes long.

    Parameters
    ----------
    steps : int
        How often `tick` will be called.
    quiet : bool
        Say nothing: for rank 1.
    every : float
        Seconds between two lines.
    """

    def __init__(self, steps, quiet, every=5.0):
        self.steps, self.quiet, self.every = steps, quiet, every
        self.done = 0
        self.begin = self.told = time.monotonic()

    def tick(self, what):
        """A step is done; `what` comes next."""
        self.done += 1
        now = time.monotonic()
        if self.quiet or now - self.told < self.every or self.done >= self.steps:
            return
        self.told = now
        left = (now - self.begin) / self.done * (self.steps - self.done)
        print(f"  … {100 * self.done // self.steps} % done, about {left:.0f} s left: {what}",
              file=sys.stderr, flush=True)


class Session:
    """The ranks of a benchmark, with a communicator per mode.

    Attributes
    ----------
    comm : Intracomm
        COMM_WORLD, for what is not measured.
    comms : dict of str to Intracomm
        By mode.
    work : bench_overlap_kernels.Work
    lead : dict of str to int
        Units by which the late side comes later, by mode; of two ranks.
    device : str
        How the ranks of the two halves reach each other: ``shm``, or ``verbs`` and the device.
    """

    def __init__(self, options):
        self.world = world.init()
        self.comm = self.world.comm_world
        self.rank = self.comm.Get_rank()
        ranks = self.comm.Get_size()
        self.device = self.world.fabrics()[(self.rank + ranks // 2) % ranks]
        self.comms, self.lead, self.refused = {}, {}, []
        self.work = kernels.Work().calibrate(self.comm)
        for mode in options.modes:
            self.comms[mode] = self.world.beside(**settings(mode))
            if ranks > 2:
                continue                # nothing is asked there that needs a lead
            least = getattr(options, "lead", 0) / 1e3
            self.lead[mode] = max(kernels.lead(self.comms[mode], self.work),
                                  self.work.units(least))

    def keep(self, rows, refusals):
        """The rows that are what they are called; the others are put aside, with the reason.

        Parameters
        ----------
        rows : list of dict
        refusals : list of str or None
            The reason of each row against it.

        Returns
        -------
        kept : list of dict
        lines : list of str
            What to print of the others.
        """
        kept, lines = [], []
        for row, why in zip(rows, refusals, strict=True):
            if why is None:
                kept.append(row)
            else:
                self.refused.append(row | {"refused": why})
                lines.append(f"    {row['mode']:<14} refused: {why}")
        return kept, lines

    def close(self):
        """End the connections of all modes; both ranks call it."""
        for comm in self.comms.values():
            self.world.leave(comm)

    def transfers(self, size):
        """Seconds of a blocking transfer of `size` bytes, by mode; the same on both ranks.

        Half a round trip: the median of three turns, of which each has warmed up.
        """
        found = {mode: [] for mode in self.comms}
        for _ in range(3):
            for mode, comm in self.comms.items():
                found[mode].append(kernels.transfer(comm, size, 3))
        return {mode: statistics.median(times) for mode, times in found.items()}

    def count(self, seconds, expected):
        """How many messages of `expected` seconds fit into a turn; the same on both ranks."""
        return self.comm.bcast(min(max(int(seconds / max(expected, 1e-6)), 1), 100), root=0)

    def alone(self, units, rank):
        """Seconds that `units` take on `rank` while the other one sleeps; on both ranks."""
        found = self.work.time(units) if self.rank == rank else None
        return self.comm.bcast(found, root=rank)

    @contextmanager
    def counted(self, mode, into):
        """Add to the dict `into` what all engines of `mode` count meanwhile; on rank 0."""
        engine = self.comms[mode].engine
        # Whatever packets were on their way have been counted.
        kernels.together(self.comms[mode])
        before = engine.counters()
        yield
        kernels.together(self.comms[mode])
        after = engine.counters()
        grown = {name: after[name] - before[name]
                 for name in (*COUNTED, "extra_packets", "extra_bytes") if name in after}
        for one in self.comm.gather(grown, root=0) or ():
            for name, value in one.items():
                into[name] = into.get(name, 0) + value


def usage(counted):
    """The share of RTRs that were used, of those that were sent; None if there were none."""
    sent = counted.get("rtrs_sent", 0)
    return counted["rtrs_used"] / sent if sent else None


def extra_bytes(counted):
    """Bytes on the wire that a rendezvous without speculation would not have sent."""
    if "extra_bytes" in counted:
        return counted["extra_bytes"]
    return RTR_BYTES * (counted.get("rtrs_sent", 0) - counted.get("rtrs_used", 0))


def percent(value, digits=1):
    """`value` as a percentage, or a dash."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def time_text(seconds):
    """A time for people."""
    if seconds is None:
        return "-"
    scale, unit = next(((scale, unit) for scale, unit in ((1.0, "s"), (1e-3, "ms"))
                        if abs(seconds) >= 0.9995 * scale), (1e-6, "µs"))
    number = seconds / scale
    return f"{number:.0f} {unit}" if abs(number) >= 99.95 else f"{number:.3g} {unit}"


def run_rank(options, about, measure):
    """Take part as one of the ranks; returns (status, rows, facts, more for the JSON file).

    Parameters
    ----------
    options : Namespace
    about : str
        One line about the benchmark.
    measure : callable
        ``measure(session, options, say)``: measures, prints by `say`, returns (rows, more); on
        rank 1 what it returns is ignored.
    """
    comm = world.init().comm_world
    rank, size = comm.Get_rank(), comm.Get_size()
    wanted = getattr(options, "ranks", 2)
    if size != wanted:
        if rank == 0:
            print(f"pyrdv bench: {options.benchmark} needs {wanted} ranks and this job has {size}; "
                  f"start it with `pyrdv run -n {wanted}`, or by itself", file=sys.stderr)
        return 2, [], None, {}
    if options.pin:
        bench_kernels.pin(rank)
    facts = report.machine_facts() if rank == 0 else None

    def say(text=""):
        if rank == 0:
            print(text, flush=True)

    session = Session(options)
    say(f"{options.benchmark}: {about}")
    say(f"{size} ranks over {session.device}{', each on one CPU' if options.pin else ''}; "
        f"one unit of work {session.work.seconds * 1e6:.2f} µs")
    if rank == 0:
        say(report.facts_line(facts))
        if facts["load_1min"] > facts["cores"] / 2:
            say(f"the machine is busy (load {facts['load_1min']}): figures will be rough")
    rows, more = measure(session, options, say)
    session.close()
    more |= {"refused": session.refused, "fabric": session.device,
             "paper": {"source": PAPER, **more.get("paper", {})},
             "modes": {mode: EVERY[mode][1] for mode in options.modes},
             "unit_us": session.work.seconds * 1e6}
    return 0, rows, facts, more
