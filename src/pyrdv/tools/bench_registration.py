"""``pyrdv bench registration``: what registering memory costs, and what a copy costs instead.

After "A High-Performance Superpipeline Protocol for InfiniBand" (Denis, 2011): figure 1
(registration and copy as bandwidths), figure 2 (a naive protocol that registers, and one that
copies, beside a raw RDMA WRITE) and figure 4 (the model of both pipelines). All on a bare fabric
between two ranks, without the engine; the naive protocols are those of `pyrdv.calibration.meter`.

Columns, each the time of one message in one direction:

``write``       a WRITE into memory known and registered before, and the packet behind it
``registered``  the receiver registers its buffer and tells where it is, the sender registers its
                own and writes, both deregister
``copied``      copied whole into registered memory, written, copied whole out of it
"""

import sys

from pyrdv.calibration import measuring
from pyrdv.tools import bare, bench_arguments as arguments, bench_report as report, cost_model, tune

ABOUT = "cost of registering memory, and of copying it instead, on a bare fabric"
PAPER = {
    "source": "Denis, A High-Performance Superpipeline Protocol for InfiniBand, 2011, section 2, "
              "ConnectX DDR",
    "registration_latency": 68e-6,
    "registration_bandwidth": 20e9,
    "registered_share_64K": 0.40,
    "registered_share_large": 0.91,
    "copied_share_large": 0.57,
}
SIZES = (4096, 16 << 20)
MODELS = {"pipeline": cost_model.pipeline, "superpipeline": cost_model.superpipeline}
WAYS = ("write", "registered", "copied")
HEADER = (f"{'size':>12}  {'register':>9}  {'copy':>9}  {'write':>9}  {'registered':>10}  "
          f"{'copied':>9}   MB/s; the last two in per cent of write")


def add_arguments(parser):
    """Give `parser` the options of ``pyrdv bench registration``."""
    parser.add_argument("--fabric", choices=("auto", *bare.KINDS), default="auto",
                        help="what to measure (default auto: what joins the two ranks)")
    parser.add_argument("--sizes", type=arguments.sizes, metavar="A,B,…",
                        help="sizes in bytes, K and M allowed (default 4K to 16M by --step)")
    parser.add_argument("--step", type=step, default=2.0, metavar="Q",
                        help="ratio of a size to the one before (default 2; the paper has 1.05)")
    parser.add_argument("--seconds", type=arguments.seconds, default=0.05, metavar="S",
                        help="time for each of the five figures of a size (default 0.05)")


def step(text):
    """A ratio of two sizes."""
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.01 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ratio between 1.01 and 1024")
    return value


def ranks(options):
    """How many ranks to start."""
    return 2


def refusal():
    """Nothing stands in the way: where there is no device, shared memory is measured."""
    return None


def sizes(options, bounds=SIZES):
    """The sizes to measure, ascending."""
    if options.sizes:
        return sorted(set(options.sizes))
    found, size = [], float(bounds[0])
    while size < bounds[1] * 1.001:
        found.append(round(size))
        size *= options.step
    return found


def measure(pair, ruler, size):
    """The row of one size, seconds; the same work on both ranks."""
    memory, region, remote = pair.window(size)
    staging, staged, _ = pair.window(size)
    user, meter = bare.touched(size), pair.meter
    row = {"size": size}
    row["write"] = ruler.figure(lambda turns, samples: meter.writes_back_and_forth(
        region, *remote, size, turns, samples))
    row["registered"] = ruler.figure(
        lambda turns, samples: meter.registered_back_and_forth(user, turns, samples))
    row["copied"] = ruler.figure(lambda turns, samples: meter.copied_back_and_forth(
        user, staged, region, *remote, turns, samples))
    alone = measuring.Ruler(measuring.alone, ruler.seconds)
    why = ""
    try:
        row["register"], row["deregister"] = measuring.registration(pair.fabric, alone, size)
    except OSError as error:
        why = str(error)
    # Both ranks go on or stop: one of them may be allowed to lock less.
    reasons = [text for text in pair.comm.allgather(why) if text]
    if reasons:
        raise OSError(reasons[0])
    row["copy"] = measuring.copy(alone, size)
    pair.exchange(None)
    for one in (region, staged):
        one.deregister()
    for one in (memory, staging, user):
        one.close()
    return row


def run_rank(options, comm):
    """Measure as one of two ranks; rank 0 prints. Returns (status, rows, facts, more)."""
    rank = comm.Get_rank()
    facts = report.machine_facts() if rank == 0 else None
    pair = bare.pair_of(comm, options.fabric, "pyrdv bench")
    if pair is None:
        return 1, [], facts, None
    if rank == 0:
        print(f"registration: {ABOUT}; {pair.name}\n{report.facts_line(facts)}\n{HEADER}",
              flush=True)
    ruler, rows = measuring.Ruler(pair.agree, options.seconds), []
    status = 0
    try:
        small = measuring.network(pair, ruler, ())
        latency, gap = small["latency"], small["gap"]
        for size in sizes(options):
            rows.append(measure(pair, ruler, size))
            if rank == 0:
                print(row_text(rows[-1]), flush=True)
    except OSError as error:
        # Of the same kind at both ends: they are on one host, or the other end was told.
        print(f"pyrdv bench: rank {rank}: {error}", file=sys.stderr)
        status = 1
    pair.close()
    if rank or status:
        return status, rows, facts, None
    predict(rows, latency, gap)
    print(verdict(rows))
    return 0, rows, facts, {"paper": PAPER}


def predict(rows, latency, gap):
    """Add to each row what the model says of the pipelines, seconds."""
    profile = {"latency": latency, "gap": gap,
               "net": [[row["size"], row["write"]] for row in rows],
               "copy": [[row["size"], row["copy"]] for row in rows]}
    for row in rows:
        row["latency"], row["gap"] = latency, gap
        if len(rows) > 1:
            row["model"] = {name: model(profile, row["size"]) for name, model in MODELS.items()}


def row_text(row):
    """One line of the table, laid out like `HEADER`."""
    def rate(way):
        return row["size"] / max(row[way], 1e-12) / 1e6

    def share(way):
        return f"{100 * row['write'] / row[way]:.0f} %"

    register = f"{rate('register'):.0f}" if row["register"] > 50e-9 else "free"
    return (f"{report.size_text(row['size']):>12}  {register:>9}  {rate('copy'):>9.0f}  "
            f"{rate('write'):>9.0f}  {share('registered'):>10}  {share('copied'):>9}")


def verdict(rows):
    """The paper's figures beside those of `rows`."""
    fixed, each = tune.line([(row["size"], row["register"]) for row in rows])
    near = min(rows, key=lambda row: abs(row["size"] - 65536))
    last = rows[-1]

    def share(row, way):
        return f"{100 * row['write'] / row[way]:.0f} %"

    return "\n".join([
        f"{'':<46}  {'paper':>9}  {'here':>9}",
        f"{'registration, fixed part':<46}  {'68 us':>9}  {fixed * 1e6:>6.2f} us",
        f"{'registration, per byte':<46}  {'20 GB/s':>9}  {each / 1e9:>4.0f} GB/s",
        f"{'naive registration of write at ' + report.size_text(near['size']):<46}  {'40 %':>9}  "
        f"{share(near, 'registered'):>9}",
        f"{'naive registration of write at ' + report.size_text(last['size']):<46}  {'91 %':>9}  "
        f"{share(last, 'registered'):>9}",
        f"{'naive copy of write at ' + report.size_text(last['size']):<46}  {'57 %':>9}  "
        f"{share(last, 'copied'):>9}",
        f"paper: {PAPER['source']}"])


def plot(path, content, plt):
    """Draw the paper's figures 1, 2 and 4 from the content of the JSON file into a PNG file."""
    rows, facts = content["rows"], content["machine"]
    size = [row["size"] for row in rows]

    def rate(seconds):
        return [row["size"] / max(seconds(row), 1e-12) / 1e6 for row in rows]

    figure, panels = plt.subplots(1, 3, figsize=(15, 4.5), dpi=120, layout="constrained")
    panels[0].plot(size, rate(lambda row: row["register"]), label="registration")
    panels[0].plot(size, rate(lambda row: row["copy"]), label="memcpy")
    panels[0].set_title("registration and copy")
    panels[0].set_yscale("log")
    for way, name in zip(WAYS, ("raw write", "naive registration", "naive copy"), strict=True):
        panels[1].plot(size, rate(lambda row, way=way: row[way]), label=name)
    panels[1].set_title("naive protocols")
    panels[2].plot(size, rate(lambda row: row["write"]), label="raw write", color="0.3")
    for name in MODELS if "model" in rows[0] else ():
        panels[2].plot(size, rate(lambda row, name=name: row["model"][name]), "--",
                       label=f"{name}, model")
    panels[2].set_title("model of the pipelines")
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xlabel("size, bytes")
        axes.set_ylabel("bandwidth, MB/s")
        axes.grid(True, alpha=0.4)
        axes.legend()
    figure.suptitle(f"pyrdv {facts['pyrdv']}: {ABOUT}")
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']} ",
                ha="right", va="top", fontsize=7, color="0.4")
    report.write_picture(path, figure)
    plt.close(figure)
