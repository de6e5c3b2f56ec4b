"""Runs the experiments of the documentation and writes their tables into its pages.

Each experiment's results go to docs/results/NAME.json, all or nothing: one that fails, or one of
whose rows is refused, changes nothing.  What an experiment is stands in benchmarks/experiments.py.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import results
from experiments import EXPERIMENTS

from pyrdv.tools import bench_report as report


def parse(argv):
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="make reproduce ARGS=...", description=__doc__.splitlines()[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="experiments: " + ", ".join(EXPERIMENTS))
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of them (default all)")
    parser.add_argument("--tables", action="store_true",
                        help="run nothing: write the tables from the results that are there")
    parser.add_argument("--quick", action="store_true",
                        help="short runs that show whether they work; docs/ stays as it is")
    parser.add_argument("--docs", type=Path, default=results.ROOT / "docs", metavar="FOLDER",
                        help="where pages and results are (docs)")
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in EXPERIMENTS:
            parser.error(f"{name!r} is not one of {', '.join(EXPERIMENTS)}")
    options.names = options.names or list(EXPERIMENTS)
    return options


def run(experiment, quick):
    """Run an experiment; returns what is to be kept of it, or None if it failed."""
    facts = report.machine_facts()
    with tempfile.TemporaryDirectory(prefix="reproduce-") as out:
        words = [word.replace("{out}", out) for word in
                 (*experiment.command, *(experiment.quick if quick else ()))]
        if words[0] == "python":
            words[0] = sys.executable
        status = subprocess.run(words, cwd=results.ROOT).returncode
        figures = Path(out, experiment.figures)
        if status or not figures.exists():
            told = f"status {status}" if status else f"no file {experiment.figures}"
            print(f"reproduce: failed ({told}): {' '.join(experiment.command)}", file=sys.stderr)
            return None
        return results.result(experiment, json.loads(figures.read_text(encoding="utf-8")), facts)


def main(argv):
    options = parse(argv)
    documents = results.Documents(options.docs, EXPERIMENTS)
    failed = []
    for name in [] if options.tables else options.names:
        print(f"== {name}", flush=True)
        kept = run(EXPERIMENTS[name], options.quick)
        if kept is None:
            failed.append(name)
            continue
        for table in EXPERIMENTS[name].tables.values():
            print("\n".join(results.draw(table, kept)), flush=True)
        if not options.quick:
            documents.file(name).parent.mkdir(parents=True, exist_ok=True)
            report.write_json(documents.file(name), kept)
    if not options.quick:
        for page in documents.write():
            print(f"written: {page}")
        for line in documents.complaints():
            print(f"reproduce: {line}", file=sys.stderr)
    if failed:
        print(f"reproduce: {len(failed)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
