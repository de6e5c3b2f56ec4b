"""One kind of measurement over several sizes: messages.py LIBRARY KIND SIZES SECONDS [--pin].

KIND is latency, rate, or one of the kinds of buffers of the bandwidth loops.
"""

import sys

import common


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
        else:
            row = kernels.bandwidth(MPI, comm, size, plan, buffers=kind)
        rows.append(row)
    if comm.Get_rank() == 0:
        common.answer(rows)


if __name__ == "__main__":
    main()
