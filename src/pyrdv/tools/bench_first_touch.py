"""``pyrdv bench first-touch``: the first round trip of new memory beside the best one.

After "A High-Performance Superpipeline Protocol for InfiniBand" (Denis, 2011), figure 7: a
ping-pong of up to 100 round trips per size, of which the first and the best are drawn.

A sample is one pair of new arrays on each rank, one to send and one to receive into, and all round
trips with them.  What must hold:

1. No page of an array existed before (`fresh.empty`), and none was ever registered.
2. The array that is sent has been written, for a message without contents is none.  What is
   received into was not touched (``untouched``), or was written once (``written``): these are two
   first touches, and only the first one needs pages from the kernel.
3. Timed, on rank 0, are Send and Recv alone, on the second rank Recv and Send: registration at both
   ends, the page faults of an array that is untouched, the transfer, and with ``get-off`` the
   end of the registration.  Making, filling, checking and freeing arrays is outside of the clock.
4. The second rank says that it is ready before each round trip, the first one as the others.
5. Connections and bounce buffers are in use before the first sample of a size.

A figure is the median over the samples: of the first, of the best and of the median of the others.
"""

import argparse
import statistics
import sys
import time

import numpy as np

from pyrdv.tools import (
    bench_arguments as arguments,
    bench_counted as counting,
    bench_pipeline as pipeline,
    bench_protocols as protocols,
    bench_registration as registration,
    bench_report as report,
    fresh,
)

ABOUT = "first round trip of new memory beside the best one"
NAMES = ("get-off", "get-trust", "placed", "pipeline", "auto")
TOUCHES = ("untouched", "written")
#: What a figure of the paper says of the way: its first touch, of the best.  The first send through
#: a cache of registrations goes like the naive protocol of figure 2.
PAPER = {
    "source": protocols.SOURCE,
    "get-trust": {"64 KiB": 0.40, "large": 0.91},
    "pipeline": "the first touch is as fast as the best",
}
#: First touch of the best, and the size from which on it shall be that.
AIM, AIM_SIZE = 0.95, 64 << 10
READY, DATA = 1, 2
HEADER = (f"{'size':>12}  {'received into':<13}  " + "".join(f"{name:>16}" for name in NAMES)
          + "   best, MB/s; first, of the best")


def add_arguments(parser):
    """Give `parser` the options of ``pyrdv bench first-touch``."""
    parser.epilog = protocols.epilog(NAMES)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", type=arguments.sizes, metavar="A,B,…",
                        help="sizes in bytes, K and M allowed (default 16K to 16M by --step)")
    parser.add_argument("--step", type=registration.step, default=2.0, metavar="Q",
                        help="ratio of a size to the one before (default 2; the paper has 1.05)")
    parser.add_argument("--seconds", type=arguments.seconds, default=0.05, metavar="S",
                        help="time of a sample, for 4 to 100 round trips (default 0.05)")
    parser.add_argument("--samples", type=arguments.positive, default=7, metavar="N",
                        help="samples of each figure (default 7)")
    protocols.add_pinning(parser)


def ranks(options):
    """How many ranks to start."""
    return 2


def refusal():
    """Nothing stands in the way: where there is no device, shared memory is measured."""
    return None


class Sample:
    """New arrays of one size on each rank.

    Parameters
    ----------
    comm : Intracomm
        Of two ranks.
    size : int
        Bytes.
    touch : {'untouched', 'written'}
        What was done with the array that is received into.
    """

    def __init__(self, comm, size, touch):
        self.comm, self.peer = comm, 1 - comm.Get_rank()
        self.out, self.back = fresh.empty(size), fresh.empty(size)
        self.out.fill(1 + comm.Get_rank())
        if touch == "written":
            self.back.fill(255)
        self.faults = 0

    def run(self, count):
        """Seconds of each of `count` messages in one direction; what came is looked at."""
        before = fresh.faults()
        taken = [self.once()]
        self.faults = fresh.faults() - before
        taken += [self.once() for _ in range(count - 1)]
        if not (self.back == 1 + self.peer).all():
            raise RuntimeError(f"rank {self.comm.Get_rank()} received {self.back.nbytes} B that "
                               "were not sent; report this as a bug of pyrdv")
        return taken

    def once(self):
        """Half of the seconds of a round trip; of use on rank 0 only."""
        comm, peer, token = self.comm, self.peer, np.zeros(1, np.uint8)
        if peer:
            comm.Recv(token, peer, READY)
            start = time.perf_counter()
            comm.Send(self.out, peer, DATA)
            comm.Recv(self.back, peer, DATA)
            return (time.perf_counter() - start) / 2
        comm.Send(token, peer, READY)
        comm.Recv(self.back, peer, DATA)
        comm.Send(self.out, peer, DATA)
        return 0.0


def measure(team, options, size):
    """The rows of one size, one per way and touch; on rank 1 without meaning."""
    world = team.world.comm_world
    found = {(touch, name): [] for touch in TOUCHES for name in NAMES}
    faults = {key: [] for key in found}
    counted = {key: dict.fromkeys(protocols.COUNTED, 0) for key in found}
    once = {name: min(Sample(comm, size, "written").run(3)) for name, comm in team.comms.items()}
    count = world.bcast(min(max(round(options.seconds / 2 / max(*once.values(), 1e-7)), 4), 100),
                        root=0)
    for turn in range(options.samples):
        for touch in TOUCHES:
            for name in team.order(turn):
                sample, before = Sample(team.comms[name], size, touch), team.counted(name)
                found[touch, name].append(sample.run(count))
                for key, value in team.grown(name, before).items():
                    counted[touch, name][key] += value
                faults[touch, name].append(sum(world.allgather(sample.faults)))
    return [row_of(size, touch, name, samples, faults[touch, name])
            | {"counted": counted[touch, name]} for (touch, name), samples in found.items()]


def row_of(size, touch, name, samples, faults):
    """The row of one way from the times of its samples, seconds."""
    return {
        "size": size, "received_into": touch, "way": name, "samples": len(samples),
        "round_trips": len(samples[0]),
        "first": statistics.median(times[0] for times in samples),
        "best": statistics.median(min(times) for times in samples),
        "later": statistics.median(statistics.median(times[1:]) for times in samples),
        "faults": statistics.median(faults),
    }


def run_rank(options, comm):
    """Measure as one of two ranks; rank 0 prints. Returns (status, rows, facts, more)."""
    rank = comm.Get_rank()
    facts = report.machine_facts() if rank == 0 else None
    if told := protocols.misplaced(comm, 2, "first-touch"):
        if rank == 0:
            print(told, file=sys.stderr)
        return 2, [], facts, None
    team = protocols.Team(NAMES, options.pin)
    if rank == 0:
        print(f"{protocols.heading('first-touch', ABOUT, team, facts)}\n{HEADER}", flush=True)
    rows, refused = [], []
    for size in registration.sizes(options, pipeline.SIZES):
        part, others = protocols.separate(measure(team, options, size))
        rows += part
        refused += others
        if rank == 0:
            print(*lines(part), sep="\n", flush=True)
            for row in others:
                print(f"{row['way']}, received into {row['received_into']}: refused: "
                      f"{row['refused']}", flush=True)
    counted = {name: team.counted(name) for name in NAMES}
    team.close()
    if rank == 0:
        print(verdict(rows))
    return 0, rows, facts, {"paper": PAPER, "fabric": team.fabric, "counted": counted,
                            "refused": refused}


def share(row):
    """The first touch, of the best."""
    return row["best"] / row["first"]


def lines(part):
    """The lines of one size, laid out like `HEADER`, and those of the messages' protocols."""
    for touch in TOUCHES:
        rows = {row["way"]: row for row in part if row["received_into"] == touch}
        if not rows:
            continue
        size = next(iter(rows.values()))["size"]
        yield f"{report.size_text(size):>12}  {touch:<13}  " + "".join(
            f"{size / row['best'] / 1e6:>8.0f}  {100 * share(row):>4.0f} %"
            if (row := rows.get(name)) else f"{'refused':>16}" for name in NAMES)
        yield f"{'':>12}  {'':<13}  " + "".join(
            f"{counting.text(rows[name]['counted']) if name in rows else '':>16}"
            for name in NAMES)


def verdict(rows):
    """The paper's figures and the aim beside those of `rows`."""
    out = [f"{'first touch, of the best':<44}" + "".join(f"{name:>11}" for name in NAMES)]
    if not rows:
        return "nothing is judged, for every row was refused"
    near = min((row["size"] for row in rows), key=lambda size: abs(size - AIM_SIZE))
    last = max(row["size"] for row in rows)
    for size, column in ((near, "64 KiB"), (last, "large")):
        paper = {"get-trust": f"{100 * PAPER['get-trust'][column]:.0f} %", "pipeline": "≈ 100 %"}
        out.append(f"{f'paper, {column}':<44}"
                   + "".join(f"{paper.get(name, '-'):>11}" for name in NAMES))
        for touch in TOUCHES:
            cells = {row["way"]: share(row) for row in rows
                     if row["size"] == size and row["received_into"] == touch}
            out.append(f"{f'{report.size_text(size)}, {touch}':<44}"
                       + "".join(f"{100 * cells[name]:>9.0f} %" if name in cells
                                 else f"{'refused':>11}" for name in NAMES))
    for touch in TOUCHES:
        out += _aims([row for row in rows if row["received_into"] == touch], touch)
    return "\n".join([*out, f"paper: {PAPER['source']}; the first send through a cache is its "
                            "naive registration"])


def _aims(rows, touch):
    """Lines about the aim for one kind of first touch: how many sizes reach it, and the worst."""
    judged = [row for row in rows if row["size"] >= AIM_SIZE]
    if not judged:
        return []
    reached, worst, typical = [], [], []
    for name in NAMES:
        shares = [share(row) for row in judged if row["way"] == name]
        if not shares:
            return []
        reached.append(f"{sum(one >= AIM for one in shares)} of {len(shares)}")
        worst.append(f"{100 * min(shares):.0f} %")
        typical.append(100 * min(row["later"] / row["first"] for row in judged
                                 if row["way"] == name))
    text = f"{touch}, ≥ {report.size_text(AIM_SIZE)}"
    return [f"{f'{text}: sizes with ≥ {100 * AIM:.0f} %':<44}"
            + "".join(f"{cell:>11}" for cell in reached),
            f"{f'{text}: the worst':<44}" + "".join(f"{cell:>11}" for cell in worst),
            f"{f'{text}: the worst, of a usual one':<44}"
            + "".join(f"{cell:>9.0f} %" for cell in typical)]


def plot(path, content, plt):
    """Draw the paper's figure 7 from the content of the JSON file into a PNG file."""
    rows, facts = content["rows"], content["machine"]
    figure, panels = plt.subplots(1, 3, figsize=(15, 4.5), dpi=120, layout="constrained",
                                  sharey=True)
    views = [("first", touch, f"first touch, received into {touch}") for touch in TOUCHES]
    for axes, (which, touch, title) in zip(
            panels, [*views, ("best", TOUCHES[0], "best time")], strict=True):
        for name in NAMES:
            part = [row for row in rows if (row["way"], row["received_into"]) == (name, touch)]
            axes.plot([row["size"] for row in part],
                      [row["size"] / row[which] / 1e6 for row in part], label=name)
        axes.set_title(title)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("size, bytes")
        axes.set_ylabel("bandwidth, MB/s")
        axes.grid(True, alpha=0.4)
        axes.legend()
    panels[0].set_ylim(bottom=0)
    figure.suptitle(f"pyrdv {facts['pyrdv']}: {ABOUT}, {content['fabric']}")
    protocols.signed(figure, facts)
    report.write_picture(path, figure)
    plt.close(figure)
