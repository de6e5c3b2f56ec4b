"""Fuzz packets and bootstrap bytes for a long time, round after round with new seeds.

Every round runs all of tests/fuzz in a process of its own, so that a crash is
caught: its program is printed.  ``--seed`` repeats what a round did.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("seconds", nargs="?", type=float, default=600,
                        help="begin no further round after so long (default: 600)")
    parser.add_argument("--seed", type=int,
                        help="seed of the first round, counting up from there (default: random)")
    parser.add_argument("--rounds", type=int, help="at most so many rounds, whatever the time")
    parser.add_argument("--examples", type=int, default=300,
                        help="examples of each property in a round (default: 300); a seed repeats "
                             "a round only together with the same number")
    parser.add_argument("-k", dest="select", metavar="EXPRESSION",
                        help="only the tests that pytest's -k selects")
    return parser.parse_args()


def play(seed, options, trace):
    """One round; pytest's status."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider",
               f"--hypothesis-seed={seed}", str(HERE)]
    if options.select:
        command += ["-k", options.select]
    env = os.environ | {"FUZZ_EXAMPLES": str(options.examples), "FUZZ_TRACE": str(trace)}
    done = subprocess.run(command, cwd=HERE.parent.parent, env=env, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr)
        if done.returncode < 0 or done.returncode == 99:
            died = f"signal {-done.returncode}" if done.returncode < 0 else "a sanitizer's report"
            print(f"the process died ({died}); the last packet program it ran:")
            print(trace.read_text() if trace.exists() else "none")
    else:
        print(f"  {done.stdout.strip().splitlines()[-1]}", flush=True)
    return done.returncode


def main():
    options = arguments()
    start = time.monotonic()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "program")
        while number < (options.rounds or sys.maxsize):
            spent = time.monotonic() - start
            if number and spent >= options.seconds:
                break
            print(f"round {number + 1}, seed {seed}, {spent:.0f} of {options.seconds:.0f} s",
                  flush=True)
            if status := play(seed, options, trace):
                print(f"failed; again: {Path(__file__).name} --rounds 1 --seed {seed} "
                      f"--examples {options.examples}"
                      + (f" -k {options.select!r}" if options.select else ""))
                return status if status > 0 else 1
            seed += 1
            number += 1
    print(f"{number} rounds without a finding, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
