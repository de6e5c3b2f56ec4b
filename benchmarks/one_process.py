"""What a message costs in software: two engines in one process, on one processor, no second rank.

    python benchmarks/one_process.py [--against CHECKOUT ...] [--sizes 8,64K,1M] [--rounds N]

Nobody waits for another process here, so the figures hardly depend on what else the machine does,
nor on where ranks run.  They are the time from the first call to the completion of both operations,
with the copies, over shared memory.  `--against` compares other builds of pyrdv, each a checkout
with its extensions built in place: all run in turns, in an order drawn anew for each round, and a
ratio is that of this build's median to the other's; a round counts with its tenth percentile.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

SIZES = "8,1K,8K,64K,256K,1M"
FIRST = ("receiver", "sender")
#: Messages that are not measured, and those that are: of up to so many bytes, and of more.
BEFORE, MESSAGES, LARGE, LARGE_MESSAGES = 20, 3000, 128 << 10, 600


def pair():
    """Two communicators of one process whose engines share memory."""
    from pyrdv.collectives.intracomm import Intracomm
    from pyrdv.engine.engine import Engine
    from pyrdv.fabrics.shm.fabric import ShmFabric

    fabrics = [ShmFabric(rank, 2, b"one process", "auto") for rank in range(2)]
    for fabric in fabrics:
        fabric.set_peers([other.address for other in fabrics])
    engines = [Engine(rank, 2, [fabrics[rank]]) for rank in range(2)]
    make = getattr(Intracomm, "of", None) or Intracomm.world    # as older builds call it
    return [make(engine) for engine in engines]


def message(comms, data, room, first):
    """One message, posted by `first` before the other one."""
    if first == "receiver":
        receive = comms[1].Irecv(room, 0, 1)
        send = comms[0].Isend(data, 1, 1)
    else:
        send = comms[0].Isend(data, 1, 1)
        receive = comms[1].Irecv(room, 0, 1)
    while not receive.Test() & send.Test():
        pass


def measure(sizes):
    """Microseconds, the tenth percentile, by ``"first size"``."""
    import numpy as np

    comms, found = pair(), {}
    for first in FIRST:
        for size in sizes:
            data, room = np.ones(size, np.uint8), np.zeros(size, np.uint8)
            times = []
            for _ in range(BEFORE):
                message(comms, data, room, first)
            for _ in range(MESSAGES if size <= LARGE else LARGE_MESSAGES):
                begin = time.perf_counter_ns()
                message(comms, data, room, first)
                times.append(time.perf_counter_ns() - begin)
            assert (room == 1).all()
            found[f"{first} {size}"] = sorted(times)[len(times) // 10] / 1e3
    return found


def run(checkout, sizes):
    """The same in a process that uses the build of a checkout."""
    source = str(pathlib.Path(checkout).resolve() / "src")
    words = [sys.executable, __file__, "--child", "--sizes", ",".join(map(str, sizes))]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": source}, text=True,
                          capture_output=True)
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    if not found["from"].startswith(source):
        sys.exit(f"{checkout} was not measured: pyrdv came from {found['from']}")
    return found["us"]


def byte_count(text):
    """Bytes of ``64K`` or ``1M``."""
    unit = {"K": 10, "M": 20}.get(text[-1:].upper())
    return int(text[:-1]) << unit if unit else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", nargs="+", default=[], metavar="CHECKOUT",
                        help="other builds to compare this one with, in turns")
    parser.add_argument("--sizes", default=SIZES, help=f"bytes of the messages; {SIZES}")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write all rounds to FILE")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        sizes = [byte_count(word) for word in options.sizes.split(",")]
    except ValueError:
        parser.error(f"--sizes {options.sizes}: write bytes, as in {SIZES}")
    if options.child:
        import pyrdv

        print(json.dumps({"from": pyrdv.__file__, "us": measure(sizes)}))
        return
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    here = str(pathlib.Path(__file__).resolve().parent.parent)
    builds = [here, *options.against]
    rounds = {build: [] for build in builds}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        for build in random.sample(builds, len(builds)):
            rounds[build].append(run(build, sizes))
    print(f"{'first':<10}{'bytes':>9}{'us':>10}" + "".join(
        f"{'us, ' + pathlib.Path(build).name:>16}{'ratio':>8}" for build in options.against))
    for row in rounds[here][0]:
        median = {build: statistics.median(found[row] for found in rounds[build])
                  for build in builds}
        first, size = row.split()
        print(f"{first:<10}{size:>9}{median[here]:>10.2f}" + "".join(
            f"{median[build]:>16.2f}{median[here] / median[build]:>8.3f}"
            for build in options.against))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"sizes": sizes, "rounds": rounds}, file, indent=1)


if __name__ == "__main__":
    main()
