"""`pyrdv bench registration|pipeline|first-touch|kernels` in the lab: all figures of one paper.

On each kind of device, beside a cable as fast as the guest and one that is the bottleneck. One boot
for each, both ranks bound to a processor each. The figures go to
FOLDER/DEVICE-CABLE-BENCHMARK.json, pictures beside them.
"""

import json
import sys

import lab_jobs

from pyrdv.tools import bench, bench_report as report

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
    parser = lab_jobs.parser("bench-protocols", __doc__, NAMES, device="both", rate="200mbit",
                             limit=3600)
    parser.add_argument("--cable", choices=(*CABLES, "both"), default="both", help="cables (both)")
    parser.add_argument("--step", default="2",
                        help="ratio of a size to the one before (2; the paper has 1.05)")
    return lab_jobs.parse(parser, NAMES, argv)


def arguments(options, name):
    """The arguments of one benchmark."""
    if options.quick:
        return QUICK[name]
    return PLAN[name] + ([] if name == "kernels" else ["--step", options.step])


def run(options, device, cable):
    """Measure over one kind of device and cable, and draw; return whether all went well."""
    shape = {"rate": options.rate, "delay": options.delay} if cable == "shaped" else {}
    stem = f"{device}-{cable}"
    good = lab_jobs.measure(options, device, stem, lambda name: arguments(options, name), **shape)
    plt = report.plotting()
    for name in options.only:
        path = lab_jobs.figures(options, stem, name)
        if path.exists() and plt is not None:
            bench.APART[name].plot(path.with_suffix(".png"), json.loads(path.read_text()), plt)
    return good


def main():
    options = parse(sys.argv[1:])
    lab_jobs.prepare(options)
    cables = CABLES if options.cable == "both" else (options.cable,)
    good = [run(options, device, cable) for device in options.devices for cable in cables]
    print(f"\nfigures and pictures: {options.out}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
