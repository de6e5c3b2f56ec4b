"""`pyrdv bench registration|pipeline|first-touch|kernels` in the lab: all figures of one paper.

On each kind of device, beside a cable as fast as the guest and one that is the bottleneck. One boot
for each, both ranks bound to a processor each. The figures go to
FOLDER/DEVICE-CABLE-BENCHMARK.json, pictures beside them.
"""

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyrdv.tools import bench, bench_report as report  # noqa: E402
from tests.lab import machine, ranks  # noqa: E402

NAMES = ("registration", "pipeline", "first-touch", "kernels")
#: Arguments of each benchmark; those of sizes get --step as well.
PLAN = {
    "registration": ["--seconds", "0.05"],
    "pipeline": ["--seconds", "0.2"],
    "first-touch": ["--samples", "9"],
    "kernels": ["--rounds", "15"],
}
QUICK = {
    "registration": ["--sizes", "64K,256K", "--seconds", "0.01"],
    "pipeline": ["--sizes", "64K,256K", "--seconds", "0.01", "--turns", "1"],
    "first-touch": ["--sizes", "64K,256K", "--samples", "2", "--seconds", "0.01"],
    "kernels": ["--rounds", "2", "--iterations", "3"],
}
CABLES = ("free", "shaped")


def parse(argv):
    """Return the options."""
    parser = argparse.ArgumentParser(prog="make bench-protocols ARGS=...", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", choices=(*machine.DEVICES, "both"), default="both", help="devices (both)")
    add("--cable", choices=(*CABLES, "both"), default="both", help="cables (both)")
    add("--only", default=",".join(NAMES), metavar="NAME,...",
        help=f"some of {', '.join(NAMES)} (default all)")
    add("--step", default="2", help="ratio of a size to the one before (2; the paper has 1.05)")
    add("--rate", default="200mbit", help="rate of the shaped cable (200mbit)")
    add("--delay", default="50us", help="its delay (50us)")
    add("--limit", type=float, default=3600, metavar="S", help="end a boot after S seconds (3600)")
    add("--quick", action="store_true", help="one short round: does it run?")
    add("--out", type=Path, default=ROOT / "build" / "bench-protocols", metavar="FOLDER",
        help="where figures and pictures go (build/bench-protocols)")
    options = parser.parse_args(argv)
    options.only = options.only.split(",")
    for name in options.only:
        if name not in PLAN:
            parser.error(f"{name!r} is not one of {', '.join(NAMES)}")
    return options


def arguments(options, name):
    """The arguments of one benchmark."""
    if options.quick:
        return QUICK[name]
    return PLAN[name] + ([] if name == "kernels" else ["--step", options.step])


def command(options, device, stem):
    """Return the text for the lab: every benchmark as a job of its own on both nodes."""
    texts = []
    for name in options.only:
        words = ["-m", "pyrdv.tools.bench", name, *arguments(options, name), "--json", "@OUT@"]
        # The shell in the guest knows the folder; nothing else of the words is for it.
        texts.append(ranks.job(words, 2, device, pinned=True).replace(
            "@OUT@", f'"$LAB_OUT"/{shlex.quote(f"{stem}-{name}.json")}'))
    return machine.sequence(texts)


def run(options, device, cable):
    """Measure over one kind of device and cable; return whether all went well."""
    shape = {"rate": options.rate, "delay": options.delay} if cable == "shaped" else {}
    told = f"a cable of {options.rate} and {options.delay}" if shape else "a cable without limits"
    print(f"\n{device}, {told}", flush=True)
    stem = f"{device}-{cable}"
    for name in options.only:
        (options.out / f"{stem}-{name}.json").unlink(missing_ok=True)
    result = machine.run(command(options, device, stem), devices=(device,), pinned=True,
                         limit=options.limit, out=options.out, echo=True, **shape)
    if result.reason:
        print(f"{result.console[-3000:]}\nthe lab ended early {result.reason}", file=sys.stderr)
    draw(options, stem)
    return result.status == 0


def draw(options, stem):
    """Draw what was measured."""
    plt = report.plotting()
    for name in options.only:
        path = options.out / f"{stem}-{name}.json"
        if path.exists() and plt is not None:
            bench.APART[name].plot(path.with_suffix(".png"), json.loads(path.read_text()), plt)


def main():
    options = parse(sys.argv[1:])
    subprocess.run([ROOT / ".ci" / "prepare-lab"], check=True)
    options.out.mkdir(parents=True, exist_ok=True)
    print(report.facts_line(report.machine_facts()))
    devices = machine.DEVICES if options.device == "both" else (options.device,)
    cables = CABLES if options.cable == "both" else (options.cable,)
    good = [run(options, device, cable) for device in devices for cable in cables]
    print(f"\nfigures and pictures: {options.out}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
