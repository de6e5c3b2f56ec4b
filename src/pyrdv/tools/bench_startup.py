"""``pyrdv bench startup``: connecting all ranks over RDMA, without threads and with them.

After "MPI over uDAPL" (Chai, Noronha and Panda, 2006), section 5.1 and figure 5. Both ways run on
the same ranks, in turns, each time on new fabrics; timed is only what lies between "everybody
listens and knows all addresses" and "everybody has all connections":

``steps``
    `VerbsFabric.connect_all`, as jobs start with ``PYRDV_CONNECT=start``: no thread, rank - k is
    asked in step k while rank + k asks; a few steps at once.
``thread``
    `connect_all_threaded`: a thread accepts, the main thread asks the lower ranks.

What must hold: every rank of the job comes to the same collective calls (`Team`) in the same order,
also after a failure, which all learn of in `Team.agree` before any of them ends.
"""

import os
import statistics
import sys
import time

from pyrdv import config
from pyrdv.fabrics import verbs
from pyrdv.tools import bench_arguments as arguments, bench_report as report

ABOUT = "time to connect all ranks over RDMA, in steps without threads and with a server thread"
WAYS = ("steps", "thread")
PAPER = {
    "source": "Chai, Noronha and Panda, MPI over uDAPL, 2006, section 5.1 and figure 5",
    "steps_over_thread": 0.7,
    "text": "without threads 30 % faster",
}
MOST = 16
TAG = 7
HEADER = (f"{'ranks':>6}  {'connections':>11}  {'steps, ms (range)':>28}  "
          f"{'thread, ms (range)':>28}  {'steps/thread':>12}")


class StartFailed(Exception):
    """Some rank could not take part; the text says which and why."""


def default_counts(most):
    """2, 4, 8… and `most` itself."""
    return sorted({*(1 << k for k in range(1, most.bit_length()) if 1 << k < most), most})


def spread(size, count):
    """`count` of `size` ranks, evenly, so that they are on all hosts when the job is."""
    return [i * size // count for i in range(count)]


class Team:
    """Some ranks of a job that exchange objects; the others of the job sleep meanwhile.

    Parameters
    ----------
    comm : Intracomm
    members : sequence of int
        Ranks in `comm`; the first passes everything on.
    """

    def __init__(self, comm, members):
        self.comm = comm
        self.members = members
        self.index = members.index(comm.Get_rank())

    def exchange(self, thing=None):
        """Give every member the list of what all gave, by index; none returns before all gave."""
        comm, leader = self.comm, self.members[0]
        if self.index:
            comm.send(thing, leader, TAG)
            return comm.recv(source=leader, tag=TAG)
        things = [thing, *(comm.recv(source=peer, tag=TAG) for peer in self.members[1:])]
        for peer in self.members[1:]:
            comm.send(things, peer, TAG)
        return things

    def agree(self, problem):
        """Raise `StartFailed` on all members if any of them has a `problem` (text, or None)."""
        told = {}
        for rank, text in zip(self.members, self.exchange(problem), strict=True):
            if text:
                told.setdefault(text, []).append(str(rank))
        if told:
            raise StartFailed("; ".join(f"rank {', '.join(ranks)}: {text}"
                                        for text, ranks in list(told.items())[:3]))


def add_arguments(parser):
    """Give `parser` the options of ``pyrdv bench startup``."""
    parser.add_argument("-n", dest="ranks", type=arguments.several, metavar="N",
                        help="ranks to start, the largest number that is measured "
                        f"(default {MOST})")
    parser.add_argument("--counts", type=arguments.counts, metavar="A,B,…",
                        help="numbers of ranks to measure (default 2, 4, 8… and N)")
    parser.add_argument("--rounds", type=arguments.positive, default=5, metavar="N",
                        help="starts of each way per number of ranks (default 5)")
    parser.add_argument("--requests", choices=("one", "all"), default="one",
                        help="whether a rank with a server thread waits for one connection before "
                        "it asks for the next, or asks for all first (default one)")


def ranks(options):
    """How many ranks to start."""
    return options.ranks or max(options.counts or [MOST])


def refusal():
    """Why there is no device for it on this host, in words; None if there is one."""
    try:
        return verbs.unavailable(**verbs.asked(config.load(os.environ, lambda text: None)))
    except ValueError as error:
        return str(error)


def open_fabric(team, settings):
    """A new fabric of this member, which listens and knows the others.

    Ranks in the fabric are indices into the team.
    """
    token = team.exchange(os.urandom(32))[0]
    fabric, problem = None, None
    try:
        fabric = verbs.make(team.index, len(team.members), token, settings)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    team.agree(problem)
    fabric.set_peers(team.exchange(fabric.address))
    return fabric


def one_start(team, way, settings, at_once=False):
    """Start once in the way named; return the seconds of the slowest member and the device."""
    fabric = open_fabric(team, settings)
    problem = None
    team.exchange()
    begin = time.perf_counter()
    try:
        if way == "steps":
            fabric.connect_all(settings.timeout_start)
        else:
            from pyrdv.instruments.verbs.threaded import connect_all_threaded

            connect_all_threaded(fabric, settings.timeout_start, at_once)
    except OSError as error:
        problem = str(error)
    seconds = time.perf_counter() - begin
    # Nobody leaves before all have finished: a goodbye is not part of the start.
    slowest = max(team.exchange(seconds))
    links = fabric.counters["links"]
    if problem is None and links != len(team.members) - 1:
        problem = f"{links} connections were made, not {len(team.members) - 1}"
    device = fabric.device
    try:
        team.agree(problem)
    finally:
        for peer in range(len(team.members)):
            if peer != team.index:
                fabric.disconnect(peer)
        fabric.close()
    team.exchange()
    return slowest, device


def measure(team, options, settings):
    """All rounds of one number of ranks; the row of the table, the same on each member."""
    times = {way: [] for way in WAYS}
    for turn in range(options.rounds + 1):
        # In turns, each as often first as the other; the first round warms up.
        for way in WAYS[::-1] if turn % 2 else WAYS:
            seconds, device = one_start(team, way, settings, options.requests == "all")
            if turn:
                times[way].append(seconds * 1e3)
    count = len(team.members)
    row = {"ranks": count, "connections": count * (count - 1) // 2, "rounds": options.rounds,
           "unit": "ms", "device": device}
    for way in WAYS:
        row[way] = {"median": statistics.median(times[way]), "min": min(times[way]),
                    "max": max(times[way]), "samples": times[way]}
    return dict(row, ratio=row["steps"]["median"] / row["thread"]["median"])


def row_text(row):
    """One line of the table, laid out like `HEADER`."""
    def cell(way):
        figures = row[way]
        return f"{figures['median']:.2f} ({figures['min']:.2f} to {figures['max']:.2f})"

    return (f"{row['ranks']:>6}  {row['connections']:>11}  {cell('steps'):>28}  "
            f"{cell('thread'):>28}  {row['ratio']:>12.2f}")


def run_rank(options, comm):
    """Take part as one rank of a job; rank 0 prints. Returns (status, rows, facts, more)."""
    rank, size = comm.Get_rank(), comm.Get_size()
    counts = options.counts or default_counts(min(size, options.ranks or MOST))
    if max(counts) > size or size < 2:
        if rank == 0:
            print(f"pyrdv bench: this job has {size} ranks, too few for {max(counts + [2])}; start "
                  "it with more, or give smaller --counts", file=sys.stderr)
        return 2, [], None, None
    settings = config.load(os.environ, warn=lambda text: None)
    facts = report.machine_facts() if rank == 0 else None
    if rank == 0:
        asks = "all at once" if options.requests == "all" else "one after the other"
        print(f"startup: {ABOUT}\nmedians of {options.rounds} rounds in turns, slowest rank of "
              f"each; the thread's rank asks {asks}\n{report.facts_line(facts)}\n{HEADER}",
              flush=True)
    rows = []
    for count in counts:
        members = spread(size, count)
        row, told = None, ""
        if rank in members:
            try:
                row = measure(Team(comm, members), options, settings)
            except StartFailed as error:
                told = str(error)
        # Rank 0 is always a member; the others sleep here.
        told = comm.bcast(told, root=0)
        if told:
            if rank == 0:
                print(f"pyrdv bench: {count} ranks cannot be connected: {told}", file=sys.stderr)
            return 1, rows, facts, None
        if rank == 0:
            rows.append(row)
            print(row_text(row), flush=True)
    if rank == 0:
        print(f"over {rows[0]['device']}; the paper's figure, on InfiniBand hardware: "
              f"{PAPER['text']}, a ratio of {PAPER['steps_over_thread']}")
    return 0, rows, facts, {"paper": PAPER}


def plot(path, content, plt):
    """Draw medians and ranges of both ways, and the ratio beside the paper's, into a PNG file."""
    rows, facts = content["rows"], content["machine"]
    counts = [row["ranks"] for row in rows]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), dpi=120, layout="constrained")
    for way, label in zip(WAYS, ("in steps, no thread", "server thread"), strict=True):
        middle = [row[way]["median"] for row in rows]
        line = left.plot(counts, middle, marker="o", label=label)[0]
        left.fill_between(counts, [row[way]["min"] for row in rows],
                          [row[way]["max"] for row in rows], alpha=0.2, color=line.get_color())
    left.set_ylabel("time to connect all ranks, ms")
    left.set_ylim(bottom=0)
    left.legend(title="band: smallest to largest")
    right.plot(counts, [row["ratio"] for row in rows], marker="o", label="here")
    right.axhline(PAPER["steps_over_thread"], linestyle="--", color="0.4", label="paper, 2006")
    right.axhline(1, linewidth=0.8, color="0.7")
    right.set_ylabel("time without thread / with thread")
    right.set_ylim(bottom=0)
    right.legend()
    for axes in (left, right):
        axes.set_xticks(counts)
        axes.set_xlabel("ranks")
        axes.grid(True, alpha=0.4)
    figure.suptitle(f"pyrdv {facts['pyrdv']}: start over {rows[0]['device']}")
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']} ",
                ha="right", va="top", fontsize=7, color="0.4")
    report.write_picture(path, figure)
    plt.close(figure)
