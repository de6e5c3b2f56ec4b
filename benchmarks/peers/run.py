"""Compare pyrdv with mpi4py on MPICH and on Open MPI: the same programs, in turns, in one run.

Every program runs on each library in turn (A B C A B C ...), `--rounds` times. A figure is the
median over the rounds of the medians that the program found; a ratio sets pyrdv's figure beside
that of the better peer. Nobody is bound to a CPU unless --pin binds the ranks of all.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import stacks
from aims import CASES, KIB, MIB, OTHERS, Case

from pyrdv.tools import bench_report as report


def parse(argv):
    """Return the options."""
    parser = argparse.ArgumentParser(prog="make bench-peers ARGS=...", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library (default 5)")
    parser.add_argument("--quick", action="store_true", help="one short round: does it run?")
    parser.add_argument("--only", default="", metavar="NAME,...",
                        help="some of: " + ", ".join([*CASES, *OTHERS]))
    parser.add_argument("--stacks", default="pyrdv,mpich,openmpi", metavar="NAME,...",
                        help="some of: pyrdv, mpich, openmpi (default all)")
    parser.add_argument("--pin", action="store_true", help="bind rank k to CPU k, for all")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of a point (default 0.3)")
    parser.add_argument("--cache", metavar="FOLDER",
                        help=f"where the peers are installed (default {stacks.cache_folder()})")
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args(argv)
    known = {*CASES, *OTHERS}
    options.only = options.only.split(",") if options.only else [*CASES, *OTHERS]
    options.stacks = options.stacks.split(",")
    for word, allowed in [(w, known) for w in options.only] + [
        (w, {"pyrdv", "mpich", "openmpi"}) for w in options.stacks
    ]:
        if word not in allowed:
            parser.error(f"{word!r} is not one of {', '.join(sorted(allowed))}")
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    if options.quick:
        options.rounds, options.seconds = 1, 0.05
    return options


class Results:
    """Figures by row and stack, one per round; and what failed."""

    def __init__(self):
        self.rounds = {}
        self.failures = []

    def add(self, row, stack, value):
        self.rounds.setdefault(row, {}).setdefault(stack, []).append(value)

    def medians(self, row):
        """Return {stack: median over the rounds} of one row."""
        return {s: statistics.median(v) for s, v in self.rounds.get(row, {}).items()}

    def guard(self, what, stack, call, *args):
        """Return call(*args), or None after noting the failure."""
        try:
            return call(*args)
        except stacks.Failed as error:
            self.failures.append(f"{what} on {stack.title}: {error}")
            print(f"\n{self.failures[-1]}", file=sys.stderr, flush=True)
            return None


def run_messages(name, libraries, options, results):
    """Run one entry of `CASES` on every library in turn."""
    kind, sizes = CASES[name]
    words = [kind, ",".join(map(str, sizes)), options.seconds]
    words += ["--pin"] if options.pin else []
    for _ in range(options.rounds):
        for stack in libraries:
            rows = results.guard(name, stack, stack.run, 2, "messages.py", *words)
            for row in rows or ():
                results.add((name, row["size"]), stack.name, row["median"])


def run_overlap(libraries, options, results):
    """Measure when a send of 1 MiB is done whose receiver works 50 ms without calling."""
    words = ["overlap", MIB, options.seconds] + (["--pin"] if options.pin else [])
    for _ in range(options.rounds):
        for stack in libraries:
            rows = results.guard("overlap", stack, stack.run, 2, "messages.py", *words)
            for row in rows or ():
                results.add(("overlap", 0), stack.name, row["median"])


def run_startup(libraries, options, results):
    """Time a hello on 2 ranks, and two concurrent Python+NumPy processes of the same environment.

    The rows are milliseconds of the whole job and what it takes beyond the two processes.
    """
    for _ in range(3 * options.rounds):
        for stack in libraries:
            alone = results.guard("start-up", stack, _time_two, stack)
            job = results.guard("start-up", stack, _time_job, stack)
            if alone is not None and job is not None:
                results.add(("two Python+NumPy", 0), stack.name, alone)
                results.add(("start-up", 0), stack.name, job)


def _time_two(stack):
    command = [stack.python, str(stacks.PROGRAMS / "hello.py"), "none"]
    start = time.perf_counter()
    pair = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    if any([process.wait() for process in pair]):
        raise stacks.Failed(f"bad status of {' '.join(command)}")
    return (time.perf_counter() - start) * 1e3


def _time_job(stack):
    start = time.perf_counter()
    stack.run(2, "hello.py", timeout=60)
    return (time.perf_counter() - start) * 1e3


def run_memory(libraries, options, results):
    """Measure PSS: the job of 2 ranks, two lone processes, and the growth from 2 to 8 ranks."""
    for _ in range(min(options.rounds, 3)):
        for stack in libraries:
            alone = results.guard("memory", stack, _memory_alone, stack)
            two = results.guard("memory", stack, stack.run, 2, "memory.py", os.getpid())
            eight = results.guard("memory", stack, stack.run, 8, "memory.py", os.getpid())
            if not (alone and two and eight):
                continue
            base = sum(one["Pss"] for one in alone)
            ranks = sum(one["Pss"] for one in two["ranks"])
            results.add(("memory, 2 ranks", 0), stack.name, (ranks - base) / 1024)
            results.add(("memory, with launcher", 0), stack.name,
                        (ranks + two["launcher"] - base) / 1024)
            grown = _own(eight["ranks"]) / 8 - _own(two["ranks"]) / 2
            results.add(("memory per peer", 0), stack.name, grown / 6)


def _own(ranks):
    """Return KiB of anonymous and shared memory of all ranks; code pages are left out.

    With more processes each one's share of the code pages falls, which would hide what grows.
    """
    return sum(one["Pss_Anon"] + one["Pss_Shmem"] for one in ranks)


def _memory_alone(stack):
    command = [stack.python, str(stacks.PROGRAMS / "memory.py"), "none"]
    pair = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        if any([process.stdout.readline() != "ready\n" for process in pair]):
            raise stacks.Failed(f"no answer from {' '.join(command)}")
        values = []
        for process in pair:
            process.stdin.write("measure\n")
            process.stdin.flush()
            values.append(stacks.result_of(process.stdout.readline()))
        return values
    finally:
        for process in pair:
            process.stdin.close()
            process.stdout.close()
            process.wait()


def table(results, libraries):
    """Return (lines to print, rows for JSON) of every figure, ratio, aim and verdict."""
    rows = [case.row(results, libraries) for case in Case.all(results)]
    titles = [stack.title for stack in libraries]
    head = f"{'':<34}" + "".join(f"{title:>17}" for title in titles)
    lines = [head + f"{'ratio':>9}  {'aim':<10} verdict"]
    for row in rows:
        found = [row["figures"].get(stack.name) for stack in libraries]
        figures = "".join(f"{'-' if x is None else format(x, '.3f'):>17}" for x in found)
        ratio = f"{row['ratio']:.2f}" if row["ratio"] is not None else "-"
        lines.append(f"{row['title']:<34}{figures}{ratio:>9}  {row['aim']:<10} {row['verdict']}")
    return lines, rows


def main():
    options = parse(sys.argv[1:])
    try:
        libraries = stacks.find(options.stacks, options.cache)
        used = {stack.name: stacks.versions(stack) for stack in libraries}
    except (stacks.Failed, OSError) as error:
        print(f"bench-peers: {error}", file=sys.stderr)
        return 1
    facts = report.machine_facts()
    print(report.facts_line(facts))
    print(f"{options.rounds} rounds, {'ranks bound to CPUs' if options.pin else 'nobody bound'}")
    if facts["load_1min"] > facts["cores_allowed"] / 2:
        print(f"  the machine is busy (load {facts['load_1min']}): figures will be rough")
    for name, found in used.items():
        print(f"  {name}: " + ", ".join(f"{key} {value}" for key, value in found.items()))
    results = Results()
    for name in options.only:
        print(f"running {name}", file=sys.stderr, flush=True)
        if name == "start-up":
            run_startup(libraries, options, results)
        elif name == "memory":
            run_memory(libraries, options, results)
        elif name == "overlap":
            run_overlap(libraries, options, results)
        else:
            run_messages(name, libraries, options, results)
    lines, rows = table(results, libraries)
    print("\n".join(["", *lines, "", *notes()]))
    missed = [row["title"] for row in rows if row["verdict"] == "MISSED"]
    if missed:
        print(f"\n{len(missed)} aims missed: " + "; ".join(missed))
    if options.json:
        rounds = [{"row": f"{k[0]} {k[1]}", "stacks": v} for k, v in results.rounds.items()]
        report.write_json(options.json, report.document(
            "peers", vars(options), rows, facts, versions=used, rounds=rounds,
            failures=results.failures))
    if results.failures:
        print(f"\n{len(results.failures)} runs failed, see above", file=sys.stderr)
    return 1 if results.failures else 0


def notes():
    """Return the lines that say what the figures are."""
    return [
        "ratio: pyrdv / better peer. Medians over rounds of medians. GB/s: 1e9 bytes per second.",
        "reused: one buffer on each side, windows of 64. slots: 64 buffers used again.",
        "fresh: np.empty per message on both sides, one at a time; the receiver's clock covers",
        "  request, allocation, transfer, release; the sender fills the buffer outside of it.",
        "fresh-window: np.empty, a window of 64 alive. mapped: a new private mapping per message.",
        "overlap: the receive is posted, then its rank works 50 ms without calling the library;",
        "  the send comes later: ms from its call until it is complete.",
        "start-up: wall time of a hello on 2 ranks beyond two concurrent Python+NumPy processes.",
        f"memory: PSS beyond two such processes after contact, in MiB ({MIB} bytes); per peer:",
        f"  growth of one rank's anonymous and shared memory from 2 to 8 ranks / 6, KiB ({KIB}).",
    ]


if __name__ == "__main__":
    sys.exit(main())
