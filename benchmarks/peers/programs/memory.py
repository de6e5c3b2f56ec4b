"""Resident memory after contact of all ranks with all: memory.py LIBRARY ROOT_PID.

PSS as the kernel accounts it: a page shared by k processes counts 1/k in each, so sums over
processes are true. Rank 0 also adds up the launcher: its ancestors below ROOT_PID, the process
that asked for the job. With `none` as library the process loads NumPy, says ready, measures when
a line comes on its standard input and stays until that closes.
"""

import sys

import common
import numpy as np

KINDS = ("Pss", "Pss_Anon", "Pss_File", "Pss_Shmem", "Rss")


def resident(pid="self"):
    """Return KiB of each of `KINDS` for a process."""
    values = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            if name in KINDS:
                values[name] = int(rest.split()[0])
    return values


def launcher(root):
    """Return KiB of PSS of this process's ancestors below `root`."""
    total, pid = 0, _parent("self")
    while pid not in (root, 0, 1):
        total += resident(pid)["Pss"]
        pid = _parent(pid)
    return total


def _parent(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def contact(comm):
    """Exchange one short and one long message with every other rank."""
    rank, size = comm.Get_rank(), comm.Get_size()
    for count in (8, 256 << 10):
        out, back = np.ones(count, np.uint8), np.zeros(count, np.uint8)
        for step in range(1, size):
            to, source = (rank + step) % size, (rank - step) % size
            comm.Sendrecv(out, dest=to, recvbuf=back, source=source)
            assert back[-1] == 1
    comm.Barrier()


def alone():
    np.ones(256 << 10, np.uint8), np.zeros(256 << 10, np.uint8)
    print("ready", flush=True)
    sys.stdin.readline()
    common.answer(resident())
    sys.stdin.read()


def main():
    if sys.argv[1] == "none":
        return alone()
    comm = common.library(sys.argv[1]).COMM_WORLD
    contact(comm)
    own = resident()
    comm.Barrier()
    if comm.Get_rank() == 0:
        ranks = [own] + [comm.recv(source=r) for r in range(1, comm.Get_size())]
        common.answer({"ranks": ranks, "launcher": launcher(int(sys.argv[2]))})
    else:
        comm.send(own, 0)
    comm.Barrier()


if __name__ == "__main__":
    main()
