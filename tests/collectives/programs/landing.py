"""Collective calls that fail while large blocks are on their way: nothing lands after the call.

Every case runs on 2 or more ranks, and by every way that data takes.
"""

import time
from pathlib import Path

import numpy as np

from pyrdv import MPI, errors
from tests.support.cases import run

MEBIBYTE = 1 << 20
FEW = 8


def _meet(comm, name):
    """Wait for all ranks, without a call of the library: nobody needs one."""
    Path(f"{name}-{comm.rank}").touch()
    end = time.monotonic() + 60
    while not all(Path(f"{name}-{rank}").exists() for rank in range(comm.size)):
        assert time.monotonic() < end, f"some rank is still in the call: {name}"
        time.sleep(0.001)


def _fails(comm, nbytes, bad):
    """Blocks of `nbytes` between all, but for one that `bad` expects longer than it comes."""
    size, rank = comm.size, comm.rank
    short = (bad - 1) % size
    sent = [nbytes] * size
    due = [nbytes] * size
    if rank == short:
        sent[bad] = FEW
    if rank == bad:
        due[short] = FEW + 1
    displs = [other * nbytes for other in range(size)]
    out = np.full(nbytes * size, 1, np.uint8)
    into = np.zeros(nbytes * size, np.uint8)
    try:
        comm.Alltoallv([out, (sent, displs)], [into, (due, displs)])
    except errors.CountError:
        pass
    else:
        raise AssertionError("a block of a wrong length is no error")
    into[:] = 7
    return into


def _check(comm, nbytes, turns):
    """The data of none of `turns` calls lands after it, whatever the ranks do then."""
    room = np.zeros(comm.size * MEBIBYTE, np.uint8)
    comm.Alltoall(room, room.copy())
    for turn in range(turns):
        into = _fails(comm, nbytes, turn % comm.size)
        if turn % 2:
            _meet(comm, f"{nbytes}-{turn}")
        for _look in range(100):
            assert not comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)
            assert (into[::4096] == 7).all(), f"data came after call {turn}"
        comm.Barrier()
        comm.Barrier()
        assert (into == 7).all(), f"data came after call {turn}"


def case_blocks_of_a_mebibyte(comm):
    _check(comm, MEBIBYTE, 20)


def case_blocks_of_16_mebibytes(comm):
    _check(comm, 16 * MEBIBYTE, 6)


run(globals())
