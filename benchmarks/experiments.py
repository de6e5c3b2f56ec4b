"""The experiments of docs/reproducing-the-papers.md and docs/measurements.md, and their tables."""

from results import Experiment, Table

from pyrdv.tools import bench_applications, bench_exchange, bench_first_touch, bench_parasite
from pyrdv.tools.bench_npb import PAPER
from pyrdv.tools.bench_overlap import AIMS, scenes_text
from pyrdv.tools.bench_report import size_text
from pyrdv.tools.bench_speculation import percent, time_text

DEVICES = ("rxe", "siw")
TOOLS = "src/pyrdv/tools"
#: Benchmarks whose module has another name than they.
MODULES = {"progress": "bench_overlap", "overhead": "bench_exchange",
           "exchange-4": "bench_exchange", "applications-4": "bench_npb",
           "kernels": "bench_applications", "parasite-4": "bench_parasite"}


def marked(text, met):
    """A figure that misses its aim is marked."""
    return text if met else f"**{text}** (aim missed)"


def of_write(way, aim=0.0):
    """Bandwidth of a column, of a raw WRITE; marked if it misses the aim above 64 KiB."""
    def text(row):
        share = row["write"] / row[way]
        return marked(percent(share, 0), row["size"] <= 64 << 10 or share >= aim)
    return text


def first_touch(row):
    """The first round trip, of the best one."""
    share = row["best"] / row["first"]
    judged = row["size"] >= bench_first_touch.AIM_SIZE and row["way"] in ("pipeline", "auto")
    return marked(percent(share, 0), not judged or share >= bench_first_touch.AIM)


def beyond(row):
    """Time beyond the first mode's, where RTRs are of no use."""
    judged = row["size"] == 1 << 20 and row["mode"].startswith("indexed")
    aim = bench_exchange.AIMS["fixed" if row["mode"].endswith("-fixed") else "adapting"]
    return marked(percent(row["beyond"]), not judged or row["beyond"] <= aim)


def hidden(row):
    """The hidden share, marked where what pyrdv aims at for 1 MiB over RDMA is missed."""
    judged = row["size"] == 1 << 20 and row["mode"] in ("default", "indexed", "indexed-fixed")
    return marked(percent(row["hidden"]),
                  not judged or row["hidden"] >= AIMS["hidden"][row["side"]])


SIZE = {"size": lambda row: size_text(row["size"])}
MODE = {"mode": lambda row: row["mode"]}

OVERLAP = {"scenes": Table(
    SIZE | {"scene": lambda row: scenes_text(row["first"], row["side"])} | MODE,
    {"in the call": lambda row: time_text(row["call"]),
     "in Wait": lambda row: time_text(row["wait"]), "hidden": hidden,
     "moved meanwhile": lambda row: percent(row["moved"], 0),
     "end to end": lambda row: percent(row["end_to_end"]),
     "of ceiling": lambda row: percent(row["of_ceiling"])})}
PROGRESS = {"delays": Table(
    {"scene": lambda row: scenes_text(row["first"], row["side"])} | MODE,
    {"the other side is done after": lambda row: time_text(row["peer"])},
    across=lambda row: row["delay_text"])}
EXCHANGE = {"iterations": Table(
    {"model": lambda row: str(row["model"]), "ranks": lambda row: str(row["ranks"]),
     "neighbours": lambda row: str(row["neighbours"])} | MODE,
    {"shorter by": lambda row: percent(row["improvement"], 0)},
    across=lambda row: f"{row['ratio']:g}")}
OVERHEAD = {"patterns": Table(
    {"pattern": lambda row: row["pattern"]} | SIZE | MODE,
    {"time": lambda row: time_text(row["time"]), "beyond": beyond,
     "RTRs used": lambda row: percent(row["usage"], 0),
     "extra bytes": lambda row: percent(row["volume"], 4)})}
APPLICATIONS = {"waits": Table(
    {"kernel": lambda row: f"{row['kernel']}.{row['class']}"} | MODE,
    {"wait": lambda row: time_text(row["wait"]), "change": lambda row: percent(row["change"]),
     "whole run": lambda row: time_text(row["run"]),
     "RTRs used": lambda row: percent(row["usage"], 0),
     "extra packets": lambda row: str(row["extra_packets"]),
     "extra bytes": lambda row: percent(row["volume"], 4),
     "paper": lambda row: PAPER.get((row["kernel"], row["class"]), "")})}


def of_part(part, down, cells, across=None):
    """A table of one part of `pyrdv bench parasite`."""
    return Table(down, cells, across, where=lambda row: row["part"] == part)


def added(row):
    """Latency added, marked where signals are felt although nothing needs them."""
    judged = row["mode"] in bench_parasite.SIGNALS and row["scenario"] != "needed"
    return marked(f"{1e6 * row['added']:+.0f} µs, {percent(row['share'], 2)}",
                  not judged or row["share"] <= bench_parasite.AIMS["unneeded"])


def signalled(key, aim, least):
    """A share, marked where signals miss an aim: at least (or at most) so much."""
    def text(row):
        met = row[key] >= aim if least else row[key] <= aim
        return marked(percent(row[key], 1), row["mode"] not in bench_parasite.SIGNALS or met)
    return text


KERNEL = {"kernel": lambda row: row["kernel"]}
SCENE = {"scene": lambda row: scenes_text(row["first"], row["side"])}
PARASITE = {
    "latency": of_part("latency", {
        "scenario": lambda row: bench_parasite.SCENARIOS[row["scenario"]],
        "paper": lambda row: bench_parasite.PAPER[row["scenario"]]} | SIZE,
        {"added": added}, across=lambda row: row["mode"]),
    "progress": of_part("progress", SIZE | {"work": lambda row: row["delay_text"]}, {
        "beyond the work": lambda row: time_text(row["latency"] - row["delay"])},
        across=lambda row: row["mode"]),
    "overlap": of_part("overlap", SIZE, {
        "hidden": signalled("hidden", bench_parasite.AIMS["overlap"], True)},
        across=lambda row: row["mode"]),
    "any": of_part("any", SCENE | SIZE, {
        "hidden": signalled("hidden", bench_parasite.AIMS["any"], True)},
        across=lambda row: row["mode"]),
    "memory": of_part("memory", {"": lambda row: "KiB beyond polling"}, {
        "KiB": lambda row: f"{row['beyond']:+}"}, across=lambda row: row["mode"]),
}
PARASITE_4 = {
    "lu": of_part("lu", KERNEL | MODE, {
        "run": lambda row: time_text(row["run"]),
        "longer by": signalled("run_change", bench_parasite.AIMS["lu"], False),
        "waits": lambda row: time_text(row["wait"])}),
    "applications": of_part("applications", KERNEL | MODE, {
        "waits": lambda row: time_text(row["wait"]),
        "change": lambda row: percent(row["change"]),
        "run": lambda row: time_text(row["run"]),
        "longer by": lambda row: percent(row["run_change"])}),
}
REGISTRATION = {"ways": Table(SIZE, {
    "raw WRITE, MB/s": lambda row: f"{row['size'] / row['write'] / 1e6:.0f}",
    "naive registration": of_write("registered"), "naive copy": of_write("copied"),
    "register, µs": lambda row: f"{1e6 * row['register']:.1f}",
    "copy, µs": lambda row: f"{1e6 * row['copy']:.1f}"})}
PIPELINE = {"ways": Table(SIZE, {
    "raw WRITE, MB/s": lambda row: f"{row['size'] / row['write'] / 1e6:.0f}",
    "read": of_write("get"), "placed": of_write("placed", 0.95),
    "superpipeline, by packets": of_write("pipeline", 0.95),
    "superpipeline, by flags": of_write("flags", 0.95)})}
FIRST_TOUCH = {"shares": Table(
    {"way": lambda row: row["way"], "received into": lambda row: row["received_into"]},
    {"first, of the best": first_touch},
    across=lambda row: size_text(row["size"]))}
KERNELS = {"times": Table(
    {"kernel": lambda row: row["kernel"], "way": lambda row: row["way"]},
    {"median": lambda row: time_text(row["median"]),
     "in messages": lambda row: percent(row["in_messages"], 0),
     "of the better": lambda row: marked(
         f"{row['of_better']:.3f}",
         row["way"] != "auto" or row["of_better"] <= bench_applications.AIM)})}
STARTUP = {"times": Table(
    {"ranks": lambda row: str(row["ranks"])},
    {"steps, ms": lambda row: f"{row['steps']['median']:.0f}",
     "thread, ms": lambda row: f"{row['thread']['median']:.0f}",
     "steps/thread": lambda row: f"{row['ratio']:.2f}"})}


def of_fabric(device, unit):
    """A table of `make bench-rdma`."""
    return Table(SIZE, {"": lambda row: f"{row['median']:.4g}"}, across=lambda row: row["row"],
                 where=lambda row: (row["fabric"], row["unit"]) == (device, unit))


RDMA = {f"{device}-{name}": of_fabric(device, unit) for device in DEVICES
        for name, unit in (("latency", "us"), ("bandwidth", "MB/s"))}
PEERS = {"rows": Table({"": lambda row: row["title"]}, {
    name: (lambda row, name=name: f"{row['figures'][name]:.4g}" if name in row["figures"] else "")
    for name in ("pyrdv", "mpich", "openmpi")} | {
    "to the better peer": lambda row: marked(
        f"{row['ratio']:.2f}" if row["ratio"] is not None else "", row["verdict"] != "MISSED")})}
CALLS = {"calls": Table({"µs per call": lambda row: row["call"]}, {
    name: (lambda row, name=name: f"{row['us'][name]:.3g}" if name in row["us"] else "")
    for name in ("pyrdv", "mpich", "openmpi")})}
MATCHING = {"rounds": Table(
    {"queue": lambda row: row["queue"], "others": lambda row: str(row["others"])},
    {"µs": lambda row: f"{row['us']:.2f}", "ratio": lambda row: f"{row['ratio']:.2f}"})}


def in_lab(program, benchmark, device, file, tables, *more):
    """A benchmark of `make bench-overlap` or `make bench-protocols`."""
    module = MODULES.get(benchmark, f"bench_{benchmark.replace('-', '_')}")
    return Experiment(
        ("python", f"benchmarks/{program}.py", "--device", device, "--only", benchmark, *more,
         "--out", "{out}"),
        f"{device}{file}-{benchmark}.json",
        (f"benchmarks/{program}.py", f"{TOOLS}/{module}.py"), tables)


EXPERIMENTS = {
    **{f"{name}-{device}": in_lab("overlap", name, device, "", tables)
       for name, tables in (("overlap", OVERLAP), ("progress", PROGRESS), ("exchange", EXCHANGE),
                            ("exchange-4", EXCHANGE), ("overhead", OVERHEAD),
                            ("applications-4", APPLICATIONS), ("parasite", PARASITE),
                            ("parasite-4", PARASITE_4))
       for device in DEVICES},
    **{f"{name}-{device}": in_lab("protocols", name, device, "-free", tables, "--cable", "free")
       for name, tables in (("registration", REGISTRATION), ("pipeline", PIPELINE),
                            ("first-touch", FIRST_TOUCH), ("kernels", KERNELS))
       for device in DEVICES},
    **{name: Experiment(
        ("python", "-m", "tests.lab", "--device", "rxe", "--nodes", "1", "--out", "{out}", "--",
         f'pyrdv bench startup --requests {requests} --json "$LAB_OUT/startup.json"'),
        "startup.json", (f"{TOOLS}/bench_startup.py",), STARTUP, quick=())
       for name, requests in (("startup", "one"), ("startup-all", "all"))},
    "rdma": Experiment(
        ("python", "benchmarks/rdma/run.py", "--json", "{out}/rdma.json", "--plot",
         "{out}/rdma.png"),
        "rdma.json", ("benchmarks/rdma/run.py", "benchmarks/rdma/session.py",
                      "benchmarks/rdma/plan.toml", "benchmarks/rdma/programs/messages.py"), RDMA),
    "peers": Experiment(
        ("python", "benchmarks/peers/run.py", "--json", "{out}/peers.json"), "peers.json",
        ("benchmarks/peers/run.py", f"{TOOLS}/bench_kernels.py"), PEERS),
    "calls": Experiment(
        ("python", "benchmarks/overhead.py", "--json", "{out}/calls.json"), "calls.json",
        ("benchmarks/overhead.py", "benchmarks/peers/programs/calls.py"), CALLS),
    "matching": Experiment(
        ("python", "-m", "pyrdv.tools.cli", "run", "-n", "2", "benchmarks/matching.py", "--json",
         "{out}/matching.json"), "matching.json", ("benchmarks/matching.py",), MATCHING,
        quick=("--rounds", "50", "--others", "100")),
}
