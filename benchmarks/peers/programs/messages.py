"""One kind of measurement over several sizes: messages.py LIBRARY KIND SIZES SECONDS [--pin].

KIND is latency, rate, overlap, or one of the kinds of buffers of the bandwidth loops.
"""

import statistics
import sys

import common


def overlap(comm, size):
    """Return the row of sends whose receiver works for 50 ms, in milliseconds."""
    loops = common.kernels("bench_overlap_kernels")
    found = loops.sender_done(comm, size, 0.05, 10)
    return None if found is None else {"size": size, "median": statistics.median(found) * 1e3}


def main():
    library, kind, sizes, seconds = sys.argv[1:5]
    MPI, kernels = common.library(library), common.kernels()
    comm = MPI.COMM_WORLD
    if "--pin" in sys.argv[5:]:
        kernels.pin(comm.Get_rank())
    plan = kernels.Plan(float(seconds))
    rows = []
    for size in map(int, sizes.split(",")):
        if kind == "latency":
            row = kernels.latency(MPI, comm, size, plan)
        elif kind == "rate":
            row = kernels.rate(MPI, comm, size, plan)
        elif kind == "overlap":
            row = overlap(comm, size)
        else:
            row = kernels.bandwidth(MPI, comm, size, plan, buffers=kind)
        rows.append(row)
    if comm.Get_rank() == 0:
        common.answer(rows)


if __name__ == "__main__":
    main()
