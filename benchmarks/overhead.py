"""What a call costs the caller, on pyrdv and on mpi4py with MPICH and Open MPI, in turns.

    python benchmarks/overhead.py [--rounds N] [--quick] [--stacks pyrdv,mpich,openmpi]

Isend of an array of 100 MB must not cost more than 50 us. Irecv of it may copy at once when the
message has been announced already. The calls on 8 bytes show the price of the Python layer. The
program measured is peers/programs/calls.py.
"""

import argparse
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))

import stacks  # noqa: E402  (found by the line above)

from pyrdv.tools import bench_report as report  # noqa: E402

AIM_US = {"Isend 100 MB": 50.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small arrays, one round")
    parser.add_argument("--stacks", default="pyrdv,mpich,openmpi")
    parser.add_argument("--cache", metavar="FOLDER", help="where the peers are installed")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    libraries = stacks.find(options.stacks.split(","), options.cache)
    extra = ["--quick"] if options.quick else []
    figures = {}
    for _ in range(1 if options.quick else options.rounds):
        for stack in libraries:
            for name, value in stack.run(2, "calls.py", *extra).items():
                figures.setdefault(name, {}).setdefault(stack.name, []).append(value)
    facts = report.machine_facts()
    print(report.facts_line(facts))
    if options.quick:
        print("--quick: the large arrays have 4 MB, not 100 MB")
    print(f"{'us per call':<24}" + "".join(f"{stack.title:>18}" for stack in libraries))
    rows = []
    for name, by_stack in figures.items():
        medians = {key: statistics.median(values) for key, values in by_stack.items()}
        aim, own = AIM_US.get(name), medians.get("pyrdv")
        verdict = ""
        if aim and own is not None:
            verdict = f"  aim <= {aim:g} us: {'met' if own <= aim else 'MISSED'}"
        print(f"{name:<24}" + "".join(f"{medians[s.name]:>18.3f}" for s in libraries) + verdict)
        rows.append({"call": name, "us": medians, "aim_us": aim})
    if options.json:
        report.write_json(options.json, report.document("overhead", vars(options), rows, facts))


if __name__ == "__main__":
    try:
        main()
    except stacks.Failed as error:
        sys.exit(f"overhead: {error}")
