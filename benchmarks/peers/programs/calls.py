"""What one call costs the caller: calls.py LIBRARY [--quick]. Two ranks.

Times of the call alone, at the sender, in microseconds: Isend and Irecv of an array of 100 MB,
Isend of 8 bytes, and Test of a request that is complete.
"""

import sys
import time

import common
import numpy as np


def timed(call, *args):
    start = time.perf_counter()
    value = call(*args)
    return value, (time.perf_counter() - start) * 1e6


def large(MPI, comm, count, rounds, mine):
    """Return the times of Isend (rank 0) or Irecv (rank 1) of `count` bytes."""
    array, times = np.ones(count, np.uint8), []
    for _ in range(rounds):
        comm.Barrier()
        request, took = timed(comm.Isend if mine else comm.Irecv, array, 1 if mine else 0, 1)
        times.append(took)
        request.Wait()
    return times


def small(MPI, comm, rounds, mine):
    """Return (time of one Isend of 8 bytes, time of one Test of a complete request)."""
    array, token = np.ones(8, np.uint8), np.zeros(1, np.uint8)
    sends, tests = [], []
    for _ in range(rounds):
        comm.Barrier()
        if mine:
            start = time.perf_counter()
            requests = [comm.Isend(array, 1, 2) for _ in range(16)]
            sends.append((time.perf_counter() - start) / 16 * 1e6)
            comm.Recv(token, 1, 3)
            for request in requests:
                request.Wait()
            request = MPI.REQUEST_NULL
            start = time.perf_counter()
            for _ in range(16):
                request.Test()
            tests.append((time.perf_counter() - start) / 16 * 1e6)
        else:
            for _ in range(16):
                comm.Recv(array, 0, 2)
            comm.Send(token, 0, 3)
    return sends, tests


def main():
    quick = "--quick" in sys.argv
    MPI = common.library(sys.argv[1])
    comm = MPI.COMM_WORLD
    mine = comm.Get_rank() == 0
    big = large(MPI, comm, 4_000_000 if quick else 100_000_000, 5 if quick else 15, mine)
    sends, tests = small(MPI, comm, 50 if quick else 500, mine)
    if not mine:
        comm.send(big, 0)
    else:
        other = comm.recv(source=1)
        common.answer({
            "Isend 100 MB": float(np.median(big)),
            "Irecv 100 MB": float(np.median(other)),
            "Isend 8 B": float(np.median(sends)),
            "Test of a null request": float(np.median(tests)),
        })


if __name__ == "__main__":
    main()
