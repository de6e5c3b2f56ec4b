"""`pyrdv bench overlap|progress|exchange|overhead` in the lab, beside a cable that is slow.

Devices in software take the processor away from the work, so overlap shows only where the wire is
the bottleneck (docs/lab.md). One boot per kind of device, both ranks bound to a processor each. The
figures go to FOLDER/DEVICE-BENCHMARK.json, pictures beside them.
"""

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyrdv.tools import (  # noqa: E402
    bench_exchange,
    bench_overlap,
    bench_overlap_plots,
    bench_report as report,
)
from tests.lab import machine, ranks  # noqa: E402

#: Arguments of each benchmark: a quarter of an hour on rxe in all.
PLAN = {
    "overlap": ["--sizes", "128K,256K,512K,1M", "--rounds", "7", "--seconds", "0.3"],
    "progress": ["--sizes", "1M", "--rounds", "3"],
    "exchange": ["--sizes", "128K", "--seconds", "0.5"],
    "overhead": ["--sizes", "8,128K,1M"],
}
QUICK = {
    "overlap": ["--sizes", "128K"],
    "progress": ["--sizes", "128K", "--delays", "0,1"],
    "exchange": ["--sizes", "128K", "--ratios", "1"],
    "overhead": ["--sizes", "128K"],
}


def parse(argv):
    """Return the options."""
    parser = argparse.ArgumentParser(prog="make bench-overlap ARGS=...", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", choices=(*machine.DEVICES, "both"), default="rxe", help="devices (rxe)")
    add("--only", default=",".join(PLAN), metavar="NAME,...",
        help=f"some of {', '.join(PLAN)} (default all)")
    add("--modes", help="as for pyrdv bench")
    add("--rounds", help="as for pyrdv bench")
    add("--rate", default="50mbit", help="rate of the cable (50mbit)")
    add("--delay", default="50us", help="its delay (50us)")
    add("--limit", type=float, default=1800, metavar="S", help="end a boot after S seconds (1800)")
    add("--quick", action="store_true", help="one short round: does it run?")
    add("--out", type=Path, default=ROOT / "build" / "bench-overlap", metavar="FOLDER",
        help="where figures and pictures go (build/bench-overlap)")
    options = parser.parse_args(argv)
    options.only = options.only.split(",")
    for name in options.only:
        if name not in PLAN:
            parser.error(f"{name!r} is not one of {', '.join(PLAN)}")
    return options


def command(options, device):
    """Return the text for the lab: every benchmark as a job of its own on both nodes."""
    texts = []
    for name in options.only:
        words = ["-m", "pyrdv.tools.bench", name,
                 *(QUICK[name] + ["--rounds", "1"] if options.quick else PLAN[name])]
        for option in ("modes", "rounds"):
            value = getattr(options, option)
            words += [f"--{option}", value] if value else []
        # The shell in the guest knows the folder; nothing else of the words is for it.
        words += ["--json", "@OUT@"]
        texts.append(ranks.job(words, 2, device, pinned=True).replace(
            "@OUT@", f'"$LAB_OUT"/{shlex.quote(f"{device}-{name}.json")}'))
    return machine.sequence(texts)


def run(options, device):
    """Measure over one kind of device; return whether all went well."""
    print(f"\n{device}, a cable of {options.rate} and {options.delay}", flush=True)
    result = machine.run(command(options, device), devices=(device,), rate=options.rate,
                         delay=options.delay, pinned=True, limit=options.limit, out=options.out,
                         echo=True)
    if result.reason:
        print(f"{result.console[-3000:]}\nthe lab ended early {result.reason}", file=sys.stderr)
    return result.status == 0


def draw(options, device):
    """Draw what was measured; return the lines about the aims."""
    lines, plt = [], report.plotting()
    for name in options.only:
        path = options.out / f"{device}-{name}.json"
        if not path.exists():
            continue
        content = json.loads(path.read_text())
        if plt is not None:
            bench_overlap_plots.plot(path.with_suffix(".png"), content, plt)
        judge = {"overlap": bench_overlap.verdicts, "overhead": bench_exchange.verdicts}.get(name)
        lines += judge(content["rows"]) if judge else []
    return lines


def main():
    options = parse(sys.argv[1:])
    subprocess.run([ROOT / ".ci" / "prepare-lab"], check=True)
    options.out.mkdir(parents=True, exist_ok=True)
    print(report.facts_line(report.machine_facts()))
    devices = machine.DEVICES if options.device == "both" else (options.device,)
    good, lines = True, []
    for device in devices:
        for name in options.only:
            (options.out / f"{device}-{name}.json").unlink(missing_ok=True)
        good = run(options, device) and good
        found = draw(options, device)
        lines += [f"\n{device}", *found] if found else []
    print("\n".join(lines))
    print(f"\nfigures and pictures: {options.out}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
