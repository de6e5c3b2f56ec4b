"""``pyrdv bench kernels``: whole kernels by each way to move large messages, in turns.

After "A High-Performance Superpipeline Protocol for InfiniBand" (Denis, 2011), which runs the NAS
Parallel Benchmarks: a kernel that reuses its buffers (CG) likes a cache of registrations, one that
never does (IS) likes a pipeline.  These are kernels of the same shapes, `application_kernels`.

A figure is the median over the rounds of the time that the slowest rank needs for a run, messages
and computation.  Each way has one run in each round, and the ways begin in turn.  Every result is
checked, over other connections, outside of the clock.
"""

import argparse
import statistics
import sys
import time

from pyrdv.tools import (
    application_kernels as kernels,
    bench_arguments as arguments,
    bench_counted as counting,
    bench_protocols as protocols,
    bench_report as report,
)

ABOUT = "time of an IS-like and a CG-like kernel by way of moving large messages"
#: What `auto` is compared with: the best of these, which keep registrations as it does.
RIVALS = ("get-auto", "placed", "pipeline")
AIM = 1.03
PAPER = {
    "source": protocols.SOURCE,
    "is": {"pipeline": 3.05, "get-trust": 3.32},
    "cg": "the same with both, cg.C.8",
}
HEADER = (f"{'kernel':>8}  {'way':<10}  {'median':>9}  {'min':>9}  {'in messages':>11}  "
          f"{'of the better':>13}  messages; ms; better: of {', '.join(RIVALS)}")


def add_arguments(parser):
    """Give `parser` the options of ``pyrdv bench kernels``."""
    parser.epilog = ("kernels:\n" + "\n".join(f"  {one.ABOUT}" for one in kernels.KERNELS.values())
                     + "\n\n" + protocols.epilog(protocols.WAYS)
                     + f" Over shared memory\nonly {', '.join(protocols.UNREGISTERED)} differ.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-n", dest="ranks", type=arguments.several, metavar="N",
                        help="ranks to start (default 2)")
    parser.add_argument("--kernels", type=arguments.some_of(kernels.KERNELS, "a kernel"),
                        default=list(kernels.KERNELS), metavar="NAME,…",
                        help=f"some of {', '.join(kernels.KERNELS)} (default all)")
    parser.add_argument("--bytes", type=one_size, default=256 << 10, metavar="N",
                        help="bytes of a large message: of cg exactly, of is about (default 256K)")
    parser.add_argument("--iterations", type=arguments.positive, metavar="N",
                        help="iterations of a run (default: " + ", ".join(
                            f"{name} {one.ITERATIONS}" for name, one in kernels.KERNELS.items())
                        + ")")
    parser.add_argument("--rounds", type=arguments.positive, default=9, metavar="N",
                        help="runs of each way (default 9)")
    protocols.add_pinning(parser)


def one_size(text):
    """One size in bytes."""
    found = arguments.sizes(text)
    if len(found) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is more than one size")
    return found[0]


def ranks(options):
    """How many ranks to start."""
    return options.ranks or 2


def refusal():
    """Nothing stands in the way: where there is no device, shared memory is measured."""
    return None


def measure(team, options, name):
    """The rows of one kernel, one per way; on the other ranks those of their own figures."""
    world, kernel = team.world.comm_world, kernels.KERNELS[name]
    made = kernel(world, options.bytes)
    iterations = options.iterations or kernel.ITERATIONS
    found = {way: [] for way in team.comms}
    before = {way: team.counted(way) for way in team.comms}
    for turn in range(-1, options.rounds):      # the first is not counted: connections, caches
        for way in team.order(turn % len(team.comms)):
            world.Barrier()
            start = time.perf_counter()
            talked = made.run(team.comms[way], iterations)
            taken = time.perf_counter() - start
            made.check(world)
            if turn >= 0:
                found[way].append(max(world.allgather((taken, talked))))
    grown = {way: team.grown(way, before[way]) for way in team.comms}
    better = min(statistics.median(taken for taken, _ in found[way])
                 for way in RIVALS if way in found)
    return [row_of(name, iterations, way, found[way], better, grown[way]) for way in found]


def row_of(name, iterations, way, runs, better, counted):
    """The row of one way from (seconds of a run, seconds in messages)."""
    times = [taken for taken, _ in runs]
    return {
        "kernel": name, "way": way, "iterations": iterations, "samples": len(runs),
        "median": statistics.median(times), "min": min(times), "times": times,
        "in_messages": statistics.median(talked / taken for taken, talked in runs),
        "of_better": statistics.median(times) / better, "counted": counted,
    }


def run_rank(options, comm):
    """Measure as one rank; rank 0 prints. Returns (status, rows, facts, more)."""
    rank = comm.Get_rank()
    facts = report.machine_facts() if rank == 0 else None
    if told := protocols.misplaced(comm, options.ranks, "kernels"):
        if rank == 0:
            print(told, file=sys.stderr)
        return 2, [], facts, None
    team = protocols.Team(None, options.pin)
    if rank == 0:
        print(f"{protocols.heading('kernels', ABOUT, team, facts)}\n{HEADER}", flush=True)
    rows, refused = [], []
    for name in options.kernels:
        part, others = protocols.separate(measure(team, options, name))
        rows += part
        refused += others
        if rank == 0:
            print(*map(row_text, part), sep="\n", flush=True)
            for row in others:
                print(f"{name:>8}  {row['way']:<10}  refused: {row['refused']}", flush=True)
    team.close()
    if rank == 0:
        print(verdict(rows))
    return 0, rows, facts, {"paper": PAPER, "fabric": team.fabric, "refused": refused}


def row_text(row):
    """One line of the table, laid out like `HEADER`."""
    return (f"{row['kernel']:>8}  {row['way']:<10}  {1e3 * row['median']:>9.2f}  "
            f"{1e3 * row['min']:>9.2f}  {100 * row['in_messages']:>9.0f} %  "
            f"{row['of_better']:>13.3f}  {counting.text(row['counted'])}")


def verdict(rows):
    """The paper's figures and the aim beside those of `rows`."""
    out = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        part = {row["way"]: row for row in rows if row["kernel"] == name}
        if not {"auto", "pipeline", "get-auto"} <= part.keys():
            out.append(f"{name}: not judged, for a row was refused")
            continue
        ratio = part["auto"]["of_better"]
        out.append(f"{name}: auto takes {ratio:.3f} times the better protocol's time (aim "
                   f"{AIM}): {'met' if ratio <= AIM else 'NOT MET'}")
        # Where nothing is registered, all that read are alike.
        cached = part.get("get-trust", part["get-auto"])
        here = part["pipeline"]["median"] / cached["median"]
        paper = PAPER["is"]["pipeline"] / PAPER["is"]["get-trust"] if name == "is" else 1.0
        out.append(f"{name}: pipeline takes {here:.2f} times the time of {cached['way']}; paper "
                   f"{paper:.2f}")
    return "\n".join([*out, f"paper: {PAPER['source']}, 8 processes of is.C and cg.C"])


def plot(path, content, plt):
    """Draw the medians of each kernel, of the better protocol's, into a PNG file."""
    rows, facts = content["rows"], content["machine"]
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(5 * len(names) + 2, 4.5), dpi=120,
                                  layout="constrained", squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        part = [row for row in rows if row["kernel"] == name]
        scale = part[0]["of_better"] / part[0]["median"]
        axes.boxplot([[time * scale for time in row["times"]] for row in part],
                     tick_labels=[row["way"] for row in part])
        axes.axhline(AIM, linestyle="--", color="0.4", label=f"aim of auto, {AIM}")
        axes.set_title(f"{name}, {part[0]['iterations']} iterations")
        axes.set_ylabel("time, of the better protocol's")
        axes.grid(True, axis="y", alpha=0.4)
        axes.legend()
    figure.suptitle(f"pyrdv {facts['pyrdv']}: {ABOUT}, {content['fabric']}")
    protocols.signed(figure, facts)
    report.write_picture(path, figure)
    plt.close(figure)
