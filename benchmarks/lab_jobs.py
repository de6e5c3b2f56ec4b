"""Benchmarks of ``pyrdv bench`` in the lab: what the programs that take several of them share.

One boot per kind of device and cable, both ranks bound to a processor each. The figures of each
benchmark go to FOLDER/STEM-BENCHMARK.json, and pictures beside them.
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyrdv.tools import bench_report as report  # noqa: E402
from tests.lab import machine, ranks  # noqa: E402

#: Name of a benchmark here: that of `pyrdv bench`, and the ranks that it takes, if not two.
RANKS = re.compile(r"(.*?)(?:-(\d+))?")


def parser(program, about, names, *, device, rate, limit):
    """A parser with the options that all of these programs have; the last three are defaults."""
    made = argparse.ArgumentParser(prog=f"make {program} ARGS=...", description=about,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    add = made.add_argument
    add("--device", choices=(*machine.DEVICES, "both"), default=device, help=f"devices ({device})")
    add("--only", metavar="NAME,...", help=f"some of {', '.join(names)} (default all)")
    add("--rate", default=rate, help=f"rate of the slow cable ({rate})")
    add("--delay", default="50us", help="its delay (50us)")
    add("--limit", type=float, default=limit, metavar="S",
        help=f"end a boot after S seconds ({limit})")
    add("--quick", action="store_true", help="one short round: does it run?")
    add("--out", type=Path, default=ROOT / "build" / program, metavar="FOLDER",
        help=f"where figures and pictures go (build/{program})")
    return made


def parse(made, names, argv):
    """The options; `only` is a list of `names`, and `devices` a tuple."""
    options = made.parse_args(argv)
    options.only = options.only.split(",") if options.only else list(names)
    for name in options.only:
        if name not in names:
            made.error(f"{name!r} is not one of {', '.join(names)}")
    options.devices = machine.DEVICES if options.device == "both" else (options.device,)
    return options


def prepare(options):
    """Have the lab and the folder there, and print what this machine is."""
    subprocess.run([ROOT / ".ci" / "prepare-lab"], check=True)
    options.out.mkdir(parents=True, exist_ok=True)
    print(report.facts_line(report.machine_facts()))


def figures(options, stem, name):
    """The file of a benchmark's figures."""
    return options.out / f"{stem}-{name}.json"


def measure(options, device, stem, arguments, **cable):
    """Run every benchmark as a job of its own on both nodes; return whether all went well.

    Parameters
    ----------
    options : argparse.Namespace
        Of `parse`.
    device : str
        Kind of devices.
    stem : str
        What the names of the files begin with; such files of before are removed.
    arguments : callable
        Gives the arguments, a list of str, of the benchmark of a name.
    **cable
        ``rate`` and ``delay``; nothing for a cable as fast as the guest.
    """
    texts = []
    for name in options.only:
        figures(options, stem, name).unlink(missing_ok=True)
        benchmark, number = RANKS.fullmatch(name).groups()
        words = ["-m", "pyrdv.tools.bench", benchmark, *arguments(name), "--json", "@OUT@"]
        # The shell in the guest knows the folder; nothing else of the words is for it.
        texts.append(ranks.job(words, int(number or 2), device, pinned=True).replace(
            "@OUT@", f'"$LAB_OUT"/{shlex.quote(figures(options, stem, name).name)}'))
    told = f"a cable of {options.rate} and {options.delay}" if cable else "a cable without limits"
    print(f"\n{device}, {told}", flush=True)
    result = machine.run(machine.sequence(texts), devices=(device,), pinned=True,
                         limit=options.limit, out=options.out, echo=True, **cable)
    if result.reason:
        print(f"{result.console[-3000:]}\nthe lab ended early {result.reason}", file=sys.stderr)
    return result.status == 0
