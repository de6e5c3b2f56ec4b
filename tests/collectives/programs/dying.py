"""One rank dies in the middle of the job: the survivors of each collective are told who.

``dying.py CALL``.  Each survivor writes a file ``told-RANK`` and lives on without a further call,
so nobody is told by the end of another one.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from pyrdv import MPI

comm = MPI.COMM_WORLD.Dup()
VICTIM = comm.size - 2
N = 100_000


def whole(count=N):
    return np.zeros(count * comm.size)


CALLS = {
    "Barrier": comm.Barrier,
    "Bcast": lambda: comm.Bcast(np.zeros(N)),
    "Gather": lambda: comm.Gather(np.zeros(N), whole()),
    "Scatter": lambda: comm.Scatter(whole(), np.zeros(N)),
    "Allgather": lambda: comm.Allgather(np.zeros(N), whole()),
    "Alltoall": lambda: comm.Alltoall(whole(), whole()),
    "Reduce": lambda: comm.Reduce(np.zeros(N), np.zeros(N)),
    "Allreduce": lambda: comm.Allreduce(np.zeros(N), np.zeros(N)),
    "Reduce_scatter": lambda: comm.Reduce_scatter(whole(), np.zeros(N)),
    "Scan": lambda: comm.Scan(np.zeros(N), np.zeros(N)),
    "Exscan": lambda: comm.Exscan(np.zeros(1), np.zeros(1)),
    "bcast": lambda: comm.bcast(0),
    "gather": lambda: comm.gather(0),
    "scatter": lambda: comm.scatter([0] * comm.size),
    "allgather": lambda: comm.allgather(np.zeros(N)),
    "alltoall": lambda: comm.alltoall([0] * comm.size),
    "reduce": lambda: comm.reduce(0),
    "allreduce": lambda: comm.allreduce(0),
    "scan": lambda: comm.scan(0),
    "exscan": lambda: comm.exscan(0),
    "Dup": comm.Dup,
    "Split": comm.Split,
    "Create": lambda: comm.Create(comm.Get_group()),
    "Create_group": lambda: comm.Create_group(comm.Get_group(), 3),
    "Free": lambda: (comm.Free(), comm.Barrier()),
}


def until_lost(call):
    """Make the call until it fails; a one-way call may succeed for some ranks before."""
    while True:
        call()


def main():
    """Die, or be told."""
    if comm.rank == VICTIM:
        comm.recv(source=comm.size - 1)
        os._exit(3)
    if comm.rank == comm.size - 1:
        comm.send("go", VICTIM)
    try:
        until_lost(CALLS[sys.argv[1]])
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_FAILED, repr(error)
        assert error.peer == VICTIM, f"{error.peer}: {error}"
        # Once told, always told.
        if sys.argv[1] != "Create_group":
            try:
                comm.Barrier()
            except MPI.Exception as again:
                assert again.peer == VICTIM, repr(again)
            else:
                raise AssertionError("a barrier without a member")
    Path(f"told-{comm.rank}").touch()
    # Alive, and of no help to the others, until they are told, too.
    time.sleep(3600)


main()
