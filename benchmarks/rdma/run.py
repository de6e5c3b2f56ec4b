"""pyrdv beside perftest, UCX and mpi4py on Open MPI over UCX, on RDMA devices, in turns.

Without --fabric the lab is booted (docs/lab.md): one virtual machine with two nodes that have real
soft-RDMA devices, all rows inside of one boot. With --fabric the devices of this machine are used.
"""

import argparse
import fnmatch
import json
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

import jobs  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402
import versions  # noqa: E402

from pyrdv.tools import bench_report as report  # noqa: E402

KINDS = ("rxe", "siw")


def load_plan():
    """Return plan.toml."""
    with (HERE / "plan.toml").open("rb") as file:
        return tomllib.load(file)


def parse(argv, plan):
    """Return the options."""
    names = [row.name for row in rows.every()]
    parser = argparse.ArgumentParser(
        prog="make bench-rdma ARGS=...", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="rows: " + ", ".join(names) + "\nWhat is run is in benchmarks/rdma/plan.toml.")
    add = parser.add_argument
    add("--rounds", type=int, default=plan["rounds"],
        help=f"turns of each row (default {plan['rounds']})")
    add("--sizes", default="", metavar="SIZE,...", help="such as 8,64K,1M, for both kinds of rows")
    add("--only", default="*", metavar="ROW,...", help="names of rows, * and ? allowed")
    add("--device", choices=(*KINDS, "both"), default="both", help="the lab's devices (both)")
    add("--fabric", default="", metavar="DEV[,DEV]",
        help="use these devices of this machine, one for each rank, not the lab")
    add("--quick", action="store_true", help="one short round: does it run?")
    add("--budget", type=float, default=plan["budget"], metavar="S",
        help=f"stop after so many seconds (default {plan['budget']})")
    add("--no-pin", action="store_true", help="do not bind the ranks to processors")
    add("--json", metavar="FILE", type=Path, default=ROOT / "build" / "bench-rdma.json",
        help="all figures (default build/bench-rdma.json)")
    add("--plot", metavar="FILE", type=Path, default=ROOT / "build" / "bench-rdma.png",
        help="picture, if matplotlib is there (default build/bench-rdma.png)")
    options = parser.parse_args(argv)
    words = options.only.split(",")
    for word in words:
        if not fnmatch.filter(names, word):
            parser.error(f"{word!r} is no row; there are {', '.join(names)}")
    options.rows = [name for name in names if any(fnmatch.fnmatch(name, word) for word in words)]
    try:
        options.points = points(options, plan)
    except ValueError as error:
        parser.error(str(error))
    if options.quick:
        options.rounds = 1
    if options.rounds < 1 or options.budget <= 0:
        parser.error("--rounds and --budget must be positive")
    return options


def points(options, plan):
    """Return {kind: list of the fields of `rows.Point`}."""
    found = {}
    for kind in ("latency", "bandwidth"):
        texts = plan["sizes"]["quick" if options.quick else kind]
        texts = options.sizes.split(",") if options.sizes else texts
        found[kind] = []
        for size in map(report.parse_size, texts):
            fitting = [c for c in plan["counts"] if size <= report.parse_size(c["up_to"])]
            if size < 1 or not fitting:
                raise ValueError(f"{size} bytes are beyond what plan.toml has counts for")
            trips, windows = fitting[0]["trips"], fitting[0]["windows"]
            if options.quick:
                trips, windows = max(5, trips // 5), max(1, windows // 5)
            found[kind].append((size, trips, windows, fitting[0]["window"]))
    return found


def fabrics(options):
    """Return what `session.Order` wants as fabrics."""
    if not options.fabric:
        kinds = KINDS if options.device == "both" else (options.device,)
        return [{"name": kind, "type": kind, "iwarp": kind == "siw", "sides": [
            {"device": f"{kind}{k}", "netdev": f"v{k}", "host": f"node{k}"} for k in (0, 1)
        ]} for kind in kinds]
    devices = options.fabric.split(",")
    if len(devices) > 2:
        raise jobs.Failed(f"--fabric {options.fabric} names more than two devices")
    sides = [{"device": device, "host": ""} for device in (devices[0], devices[-1])]
    return [{"name": options.fabric, "type": None, "iwarp": None, "sides": sides}]


def prepare(options):
    """Fetch the peers; returns (rows that can run, interpreter with mpi4py or "", notes)."""
    wanted = [row for row in rows.every() if row.name in options.rows]
    needs = sorted({need for row in wanted for need in row.needs})
    absent = versions.install(needs)
    notes = [f"not run for want of {versions.PACKAGES[need][1]} (Debian's name): "
             + ", ".join(row.name for row in wanted if need in row.needs) for need in absent]
    python = ""
    if "openmpi" in needs and "openmpi" not in absent:
        try:
            python = versions.mpi_python()
        except versions.stacks.Failed as error:
            absent.append("openmpi")
            notes.append(f"mpi4py could not be installed, its rows are not run: {error}")
    return [row.name for row in wanted if not set(row.needs) & set(absent)], python, notes


def in_lab(order, folder):
    """Run the session inside a lab."""
    from tests.lab import machine

    subprocess.run([ROOT / ".ci" / "prepare-lab"], check=True)
    command = [sys.executable, HERE / "session.py", json.dumps(order)]
    result = machine.run(
        f'{shlex.join(map(str, command))} "$LAB_OUT"', nodes=2, pinned=order["pin"], out=folder,
        devices=[order["fabrics"][0]["type"]], limit=order["plan"]["budget"] + 90, echo=True)
    if result.reason:
        print(result.console[-3000:], file=sys.stderr)
        return f"the lab ended early {result.reason}"
    return f"the session ended with status {result.status}" if result.status else ""


def here(order, folder):
    """Run the session on this machine."""
    command = [sys.executable, HERE / "session.py", json.dumps(order), folder]
    limit = order["plan"]["budget"] + 90
    session = subprocess.Popen(list(map(str, command)))
    try:
        status = session.wait(limit)
    except subprocess.TimeoutExpired:
        return f"the session did not end within {limit:g} s"
    finally:
        # Told to end it ends its programs, too; it has none when it has ended by itself.
        session.terminate()
        session.wait()
    return f"the session ended with status {status}" if status else ""


def show(figures, plan, notes, local):
    """Print tables, notes and verdicts; returns the verdicts by fabric."""
    judged = {}
    for fabric in figures.fabrics():
        for kind in table.COLUMNS:
            if figures.sizes(fabric, kind):
                print("\n".join(["", *table.section(figures, fabric, kind)]))
    print("\n" + "\n".join(table.NOTES))
    if local:
        print("Both ranks run on this machine and its devices: the figures are not those of two "
              "hosts,\nand the aims, which are for the lab's devices, are not judged.")
    for fabric in figures.fabrics():
        judged[fabric] = table.verdicts(figures, fabric, plan["aims"].get(fabric, {}))
        if judged[fabric]:
            print(f"\n{fabric}, aims:\n" + "\n".join(table.verdict_lines(judged[fabric])))
    for note in notes:
        print(note)
    return judged


def main():
    plan = load_plan()
    options = parse(sys.argv[1:], plan)
    plan["budget"] = options.budget
    facts = report.machine_facts()
    print(report.facts_line(facts))
    for name, text in environment().items():
        print(f"  {name}={text}")
    if facts["load_1min"] > facts["cores_allowed"] / 2:
        print(f"  the machine is busy (load {facts['load_1min']}): figures will be rough")
    try:
        able, python, notes = prepare(options)
        plan["openmpi"]["program"] = versions.open_mpi()
        order = {"fabrics": fabrics(options), "rows": able, "points": options.points,
                 "rounds": options.rounds, "plan": plan, "pin": not options.no_pin,
                 "mpi_python": python}
        with tempfile.TemporaryDirectory(prefix="bench-rdma-") as folder:
            trouble = (here if options.fabric else in_lab)(order, Path(folder))
            lines = [json.loads(line) for line in (Path(folder) / "figures").open()]
    except (jobs.Failed, OSError, subprocess.CalledProcessError, RuntimeError) as error:
        print(f"bench-rdma: {error}", file=sys.stderr)
        return 1
    figures = table.Figures(lines)
    notes += [f"{name}: time was up before the end of round {cut}" for name, cut in figures.cut]
    notes += [trouble] if trouble else []
    judged = show(figures, plan, notes, bool(options.fabric))
    save(options, figures, facts, judged, notes)
    return 1 if figures.failures or trouble else 0


def environment():
    """Return the variables of the caller that may change what is measured."""
    return {name: os.environ[name] for name in sorted(os.environ)
            if name.startswith(("PYRDV_", "UCX_", "OMPI_"))}


def save(options, figures, facts, judged, notes):
    """Write the JSON file and the picture, and name what failed."""
    settings = {key: str(value) if isinstance(value, Path) else value
                for key, value in vars(options).items()}
    settings["environment"] = environment()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report.write_json(options.json, report.document(
        "rdma", settings, table.records(figures), facts, versions=figures.versions, aims=judged,
        failures=figures.failures, notes=notes))
    written = [str(options.json)]
    plt = report.plotting() if figures.rounds else None
    if plt is not None:
        table.plot(options.plot, figures, facts, plt)
        written.append(str(options.plot))
    print("\nversions: " + ", ".join(f"{k} {v}" for k, v in figures.versions.items()))
    print("written: " + ", ".join(written))
    if figures.failures:
        print(f"{len(figures.failures)} runs failed:", file=sys.stderr)
        for one in figures.failures:
            where = f"{one.get('fabric', '')} {one['row']} round {one.get('round', '')}"
            print(f"  {where}: {one['failure'].splitlines()[0]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
