"""``pyrdv bench pipeline``: messages through bounce buffers beside reads and beside raw writes.

After "A High-Performance Superpipeline Protocol for InfiniBand" (Denis, 2011), figure 6: ping-pong
of the superpipeline beside a raw RDMA WRITE. There it is a test program without rendezvous; here
it is the engine, rendezvous, matching and Python included. Columns, each the time of a message
in one direction:

``write``     a WRITE into memory known and registered before, and the packet behind it, on a bare
              fabric
``get``       `Send` and `Recv` that read straight between the users' buffers (PYRDV_PROTOCOL=get)
``placed``    the same through bounce buffers (PYRDV_PROTOCOL=pipeline): placed if one holds the
              message, else by superpipeline
``pipeline``  by superpipeline at every size that does not go eagerly (PYRDV_STANDING_PEERS=0),
              parts announced by packets
``flags``     the same, parts seen by polling memory, checked by a CRC where nothing is promised
              about the order of bytes

All are measured in turns within one job, over connections of their own; a figure is the median
over the turns.
"""

import statistics
import sys
import time

import numpy as np

from pyrdv.calibration import measuring
from pyrdv.tools import (
    bare,
    bench_arguments as arguments,
    bench_counted as counting,
    bench_registration as registration,
    bench_report as report,
)

ABOUT = "messages through bounce buffers beside reads and raw writes"
PAPER = {
    "source": "Denis, A High-Performance Superpipeline Protocol for InfiniBand, 2011, section 5, "
              "ConnectX DDR and ConnectX2 QDR",
    "share_16K": 1 / 1.15,
    "share_64K": 1 / 1.05,
}
SIZES = (16 << 10, 16 << 20)
#: Knobs of the connections that are measured.
WAYS = {
    "get": {"protocol": "get", "speculation": "off"},
    "placed": {"protocol": "pipeline", "pipeline_arrival": "notice", "speculation": "off"},
    "pipeline": {"protocol": "pipeline", "pipeline_arrival": "notice", "speculation": "off",
                 "standing_peers": 0},
    "flags": {"protocol": "pipeline", "pipeline_arrival": "flags", "speculation": "off",
              "standing_peers": 0},
}
COLUMNS = ("write", *WAYS)
HEADER = (f"{'size':>12}  {'write':>9}  " + "  ".join(f"{way:>9}" for way in WAYS)
          + "   MB/s; all but the first in per cent of write")
TAG = 1
#: Protocols that the large messages of a column may take.
NAMED = {"get": ("read",), "placed": ("placed", "pipeline"), "pipeline": ("pipeline",),
         "flags": ("pipeline",)}


def add_arguments(parser):
    """Give `parser` the options of ``pyrdv bench pipeline``."""
    parser.add_argument("--fabric", choices=("auto", *bare.KINDS), default="auto",
                        help="what to measure (default auto: what joins the two ranks)")
    parser.add_argument("--sizes", type=arguments.sizes, metavar="A,B,…",
                        help="sizes in bytes, K and M allowed (default 16K to 16M by --step)")
    parser.add_argument("--step", type=registration.step, default=2.0, metavar="Q",
                        help="ratio of a size to the one before (default 2; the paper has 1.05)")
    parser.add_argument("--seconds", type=arguments.seconds, default=0.1, metavar="S",
                        help="time for each figure (default 0.1)")
    parser.add_argument("--turns", type=arguments.positive, default=5, metavar="N",
                        help="turns in which the figures of a size are taken (default 5)")


def ranks(options):
    """How many ranks to start."""
    return 2


def refusal():
    """Nothing stands in the way: where there is no device, shared memory is measured."""
    return None


def sizes(options):
    """The sizes to measure, ascending."""
    return registration.sizes(options, SIZES)


def ping_pong(comm, size):
    """A loop (turns, samples) -> seconds of a message in one direction, for `measuring.Ruler`."""
    out, back = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    peer = 1 - comm.Get_rank()

    def loop(turns, samples):
        taken = []
        for _ in range(samples):
            start = time.perf_counter()
            for _ in range(turns):
                if peer:
                    comm.Send(out, peer, TAG)
                    comm.Recv(back, peer, TAG)
                else:
                    comm.Recv(back, peer, TAG)
                    comm.Send(out, peer, TAG)
            taken.append((time.perf_counter() - start) / (2 * turns))
        return taken

    return loop


def measure(comms, pair, options, size):
    """The row of one size, seconds."""
    memory, region, remote = pair.window(size)
    ruler = measuring.Ruler(pair.agree, options.seconds / options.turns)
    loops = {"write": lambda turns, samples: pair.meter.writes_back_and_forth(
        region, *remote, size, turns, samples)}
    loops |= {way: ping_pong(comm, size) for way, comm in comms.items()}
    found = {way: [] for way in loops}
    before = {way: count(comm) for way, comm in comms.items()}
    for _ in range(options.turns):
        for way, loop in loops.items():
            found[way].append(ruler.figure(loop))
    pair.exchange(None)
    region.deregister()
    memory.close()
    grown = pair.comm.allgather({way: {name: value - before[way][name]
                                       for name, value in count(comm).items()}
                                 for way, comm in comms.items()})
    return {"size": size, **{way: statistics.median(times) for way, times in found.items()},
            "counted": {way: {name: sum(one[way][name] for one in grown)
                              for name in counting.COUNTED} for way in comms}}


def count(comm):
    """What the engine of a column has counted on this rank."""
    counters = comm.engine.counters()
    return {name: counters[name] for name in counting.COUNTED}


def refusals(row):
    """Columns of a row whose messages did not go as they are called: (way, reason) each."""
    found = [(way, counting.refusal(row["counted"][way], NAMED[way])) for way in WAYS]
    return [(way, why) for way, why in found if why is not None]


def run_rank(options, comm):
    """Measure as one of two ranks; rank 0 prints. Returns (status, rows, facts, more)."""
    from pyrdv import world

    rank, here = comm.Get_rank(), world.init()
    facts = report.machine_facts() if rank == 0 else None
    pair = bare.pair_of(comm, options.fabric, "pyrdv bench")
    if pair is None:
        return 1, [], facts, None
    if rank == 0:
        print(f"pipeline: {ABOUT}; {pair.name}\n{report.facts_line(facts)}\n{HEADER}", flush=True)
    fabric = {} if options.fabric == "auto" else {"fabric": options.fabric}
    comms = {way: here.beside(**settings, **fabric) for way, settings in WAYS.items()}
    rows, refused, status = [], [], 0
    try:
        for size in sizes(options):
            row = measure(comms, pair, options, size)
            wrong = refusals(row)
            refused += [{"size": size, "way": way, "refused": why} for way, why in wrong]
            if not wrong:
                rows.append(row)
            if rank == 0:
                print(*([row_text(row), counted_text(row)] if not wrong else [
                    f"{report.size_text(size):>12}  {way} refused: {why}" for way, why in wrong]),
                    sep="\n", flush=True)
    except OSError as error:
        print(f"pyrdv bench: rank {rank}: {error}", file=sys.stderr)
        status = 1
    counted = {way: count(one) for way, one in comms.items()}
    for one in comms.values():
        here.leave(one)
    pair.close()
    if rank or status:
        return status, rows, facts, None
    print(verdict(rows))
    return 0, rows, facts, {"paper": PAPER, "fabric": pair.name, "counted": counted,
                            "refused": refused}


def share(row, way):
    """Per cent of the bandwidth of a raw write."""
    return 100 * row["write"] / row[way]


def row_text(row):
    """One line of the table, laid out like `HEADER`."""
    return (f"{report.size_text(row['size']):>12}  {row['size'] / row['write'] / 1e6:>9.0f}  "
            + "  ".join(f"{share(row, way):>7.0f} %" for way in WAYS))


def counted_text(row):
    """The line below it: the protocols that the messages took."""
    return f"{'':>12}  {'':>9}  " + "  ".join(
        f"{counting.text(row['counted'][way]):>9}" for way in WAYS)


def verdict(rows):
    """The paper's figures beside those of `rows`."""
    if not rows:
        return "nothing is judged, for every row was refused"
    lines = [f"{'of the bandwidth of a raw write':<34}  {'paper':>9}"
             + "".join(f"  {way:>9}" for way in WAYS)]
    for size, paper in ((16 << 10, PAPER["share_16K"]), (64 << 10, PAPER["share_64K"])):
        row = min(rows, key=lambda row: abs(row["size"] - size))
        lines.append(f"{'at ' + report.size_text(row['size']):<34}  {100 * paper:>7.0f} %"
                     + "".join(f"  {share(row, way):>7.0f} %" for way in WAYS))
    return "\n".join([*lines, f"paper: {PAPER['source']}"])


def plot(path, content, plt):
    """Draw the paper's figure 6 from the content of the JSON file into a PNG file."""
    rows, facts = content["rows"], content["machine"]
    figure, axes = plt.subplots(figsize=(7, 4.5), dpi=120, layout="constrained")
    names = ("raw write", "get", "placed, then superpipeline", "superpipeline, by packets",
             "superpipeline, by flags")
    for way, name in zip(COLUMNS, names, strict=True):
        axes.plot([row["size"] for row in rows],
                  [row["size"] / row[way] / 1e6 for row in rows], label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size, bytes")
    axes.set_ylabel("bandwidth, MB/s")
    axes.set_ylim(bottom=0)
    axes.grid(True, alpha=0.4)
    axes.legend()
    figure.suptitle(f"pyrdv {facts['pyrdv']}: {ABOUT}")
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']} ",
                ha="right", va="top", fontsize=7, color="0.4")
    report.write_picture(path, figure)
    plt.close(figure)
