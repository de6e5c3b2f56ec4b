"""Explore more than the tests do: all programs up to a size, and longer ones by chance.

Run by `make explore`.  All of it takes hours on one processor; ``--seconds`` ends it early, and
then the programs looked at are taken by chance.  What is found is printed with its schedule, to be
given to `tests.explore.explorer.replay`.
"""

import argparse
import itertools
import random
import sys
import time

from tests.explore import programs
from tests.explore.explorer import Explorer, Violation, walk

#: Families of programs: name, sends, receives, cancels.
FAMILIES = (("2 sends, 2 receives, a cancel", 2, 2, True), ("2 sends, 3 receives", 2, 3, False),
            ("3 sends, 2 receives", 3, 2, False), ("3 sends, 3 receives", 3, 3, False))
NETWORKS = ({}, {"slots": 2, "transfers": 1}, {"lazy": True}, {"overtaking": True},
            {"placing": "pipeline", "reuse": True},
            {"placing": "figures", "overtaking": True, "slots": 4, "reuse": True})
POLICIES = ("indexed", "classic")


def every(sends, receives, cancels):
    """All programs of a family."""
    found = programs.pairs(sends, receives)
    return list(programs.cancelled(found) if cancels else found)


def family(found, seconds, rng, policy):
    """Explore `found` for at most so long; the explorer and how many there are."""
    explorer = Explorer(prompt=True, speculation=policy)
    rng.shuffle(found)
    until = time.monotonic() + seconds
    for program in found:
        explorer.explore(program)
        if time.monotonic() > until:
            break
    return explorer


def walks(seconds, rng):
    """Random schedules of random programs; how many there were."""
    until = time.monotonic() + seconds
    count = 0
    while time.monotonic() < until:
        program = programs.random_program(rng, rng.choice((2, 3)), 8)
        walk(program, [rng.randrange(8) for _ in range(rng.randrange(200))],
             speculation=rng.choice(POLICIES), **rng.choice(NETWORKS))
        count += 1
    return count


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="how long each family of programs gets (default: until all are done; "
                        "the random ones get 600)")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rng = random.Random(chosen.seed)
    try:
        for policy, (name, sends, receives, cancels) in itertools.product(POLICIES, FAMILIES):
            found = every(sends, receives, cancels)
            done = family(found, chosen.seconds, rng, policy)
            print(f"{policy}, {name}: {done.programs} of {len(found)} programs, {done.states} "
                  f"states, an RTR used in {done.used} steps, no counterexample", flush=True)
        print(f"{walks(min(chosen.seconds, 600), rng)} random schedules, no counterexample")
    except Violation as violation:
        sys.exit(str(violation))


if __name__ == "__main__":
    main()
