"""`pyrdv bench overlap|progress|exchange|overhead|applications|parasite` beside a slow cable.

They run in the lab. Devices in software take the processor away from the work, so overlap shows
only where the wire is the bottleneck (docs/lab.md). One boot per kind of device, both ranks bound
to a processor each. The figures go to FOLDER/DEVICE-BENCHMARK.json, pictures beside them.
"""

import json
import sys

import lab_jobs

from pyrdv.tools import (
    bench,
    bench_exchange,
    bench_overlap,
    bench_parasite,
    bench_report as report,
)

#: Arguments of each benchmark: a quarter of an hour on rxe in all.
PLAN = {
    "overlap": ["--sizes", "128K,256K,512K,1M", "--rounds", "7", "--seconds", "0.3"],
    "progress": ["--sizes", "1M", "--rounds", "3"],
    "exchange": ["--sizes", "128K", "--seconds", "0.5"],
    "exchange-4": ["--sizes", "128K", "--seconds", "0.5", "--ranks", "4", "--ratios",
                   "0.2,0.5,0.8,1,2"],
    "overhead": ["--sizes", "8,128K,1M"],
    "applications-4": ["-n", "4"],
    "parasite": ["--rounds", "5"],
    "parasite-4": ["-n", "4"],
}
QUICK = {
    "overlap": ["--sizes", "128K"],
    "progress": ["--sizes", "128K", "--delays", "0,1"],
    "exchange": ["--sizes", "128K", "--ratios", "1"],
    "exchange-4": ["--sizes", "128K", "--ratios", "1", "--ranks", "4"],
    "overhead": ["--sizes", "128K"],
    "applications-4": ["-n", "4", "--iterations", "1"],
    "parasite": ["--sizes", "128K", "--delays", "200", "--long", "1", "--iterations", "1"],
    "parasite-4": ["-n", "4", "--iterations", "1"],
}


def parse(argv):
    """Return the options."""
    parser = lab_jobs.parser("bench-overlap", __doc__, PLAN, device="rxe", rate="50mbit",
                             limit=1800)
    parser.add_argument("--modes", help="as for pyrdv bench")
    parser.add_argument("--rounds", help="as for pyrdv bench")
    return lab_jobs.parse(parser, PLAN, argv)


def arguments(options, name):
    """The arguments of one benchmark."""
    words = [*QUICK[name], "--rounds", "1"] if options.quick else list(PLAN[name])
    for option in ("modes", "rounds"):
        value = getattr(options, option)
        words += [f"--{option}", value] if value else []
    return words


def draw(options, device):
    """Draw what was measured; return the lines about the aims."""
    lines, plt = [], report.plotting()
    for name in options.only:
        path = lab_jobs.figures(options, device, name)
        if not path.exists():
            continue
        content = json.loads(path.read_text())
        if plt is not None:
            bench.APART[content["benchmark"]].plot(path.with_suffix(".png"), content, plt)
        if content["benchmark"] == "parasite":
            lines += bench_parasite.verdicts(content["rows"], content)
        judge = {"overlap": bench_overlap.verdicts, "overhead": bench_exchange.verdicts}.get(name)
        lines += judge(content["rows"]) if judge else []
    return lines


def main():
    options = parse(sys.argv[1:])
    lab_jobs.prepare(options)
    good, lines = True, []
    for device in options.devices:
        good = lab_jobs.measure(options, device, device, lambda name: arguments(options, name),
                                rate=options.rate, delay=options.delay) and good
        found = draw(options, device)
        lines += [f"\n{device}", *found] if found else []
    print("\n".join(lines))
    print(f"\nfigures and pictures: {options.out}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
