"""Does matching get slower with receives of other envelopes posted? pyrdv run -n 2 … matching.py

Rank 1 sends short messages with one tag; rank 0 has 1, 100 or 10 000 receives posted, all but the
last with other tags. Each message matches the last one posted. The figure is the time of a round
(Irecv, a token that lets the message go, its arrival); the ratio should stay near 1.

    pyrdv run -n 2 benchmarks/matching.py [--library mpi4py] [--json FILE]

The same is measured for unexpected messages: the wanted one arrives behind others.
"""

import argparse
import importlib
import json
import sys
import time

import numpy as np

WANTED, TOKEN, OTHER = 1, 2, 100


def posted_round(comm, rounds, buf, token):
    """Return the seconds of each of `rounds` matches of the receive posted last (rank 0)."""
    times = []
    for _ in range(rounds):
        if comm.Get_rank() == 1:
            comm.Recv(token, 0, TOKEN)
            comm.Send(buf, 0, WANTED)
            continue
        start = time.perf_counter()
        request = comm.Irecv(buf, 1, WANTED)
        comm.Send(token, 1, TOKEN)
        request.Wait()
        times.append(time.perf_counter() - start)
    return times


def with_posted(MPI, comm, others, rounds):
    """Return the median microseconds of a round with `others` receives posted before."""
    buf, token = np.zeros(8, np.uint8), np.zeros(1, np.uint8)
    waiting = []
    if comm.Get_rank() == 0:
        spare = np.zeros((others, 8), np.uint8)
        waiting = [comm.Irecv(spare[i], 1, OTHER + i) for i in range(others)]
    comm.Barrier()
    times = posted_round(comm, rounds, buf, token)
    if comm.Get_rank() == 1:
        for i in range(others):
            comm.Send(buf, 0, OTHER + i)
    MPI.Request.Waitall(waiting)
    comm.Barrier()
    return float(np.median(times) * 1e6) if times else None


def with_unexpected(MPI, comm, others, rounds):
    """Return the median microseconds of a round with `others` messages waiting unexpected."""
    buf, token = np.zeros(8, np.uint8), np.zeros(1, np.uint8)
    if comm.Get_rank() == 1:
        for i in range(others):
            comm.Send(buf, 0, OTHER + i)
    comm.Barrier()
    times = posted_round(comm, rounds, buf, token)
    if comm.Get_rank() == 0:
        for i in range(others):
            comm.Recv(buf, 1, OTHER + i)
    comm.Barrier()
    return float(np.median(times) * 1e6) if times else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=("pyrdv", "mpi4py"), default="pyrdv")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--others", type=int, default=10_000)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    MPI = importlib.import_module(f"{options.library}.MPI")
    comm = MPI.COMM_WORLD
    if comm.Get_size() != 2:
        sys.exit(f"matching.py runs on 2 ranks, not on {comm.Get_size()}: pyrdv run -n 2 …")
    rows = []
    for name, measure in (("posted", with_posted), ("unexpected", with_unexpected)):
        measure(MPI, comm, 0, min(options.rounds, 200))  # warm-up
        base = None
        for others in sorted({0, min(100, options.others), options.others}):
            median = measure(MPI, comm, others, options.rounds)
            if comm.Get_rank() == 0:
                base = base or median
                rows.append({"queue": name, "others": others, "us": median, "ratio": median / base})
                print(f"{name:<10} {others:>7} others: {median:9.3f} us, ratio {median / base:.2f}",
                      flush=True)
    if comm.Get_rank() == 0 and options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"library": options.library, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
