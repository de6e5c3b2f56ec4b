"""Ranks that have only received end in good order: whoever awaits more of them is told so.

The argument names the case.
"""

import sys

import numpy as np

from pyrdv import MPI
from pyrdv.errors import PeerLostError

LARGE = 1_000_000


def is_told(call):
    try:
        call()
    except PeerLostError as error:
        assert "it has finished" in str(error), error
    else:
        raise AssertionError("nothing can come any more")


def case_after_a_message(comm):
    """Rank 1 takes one message of each other rank, and ends."""
    if comm.rank == 1:
        for source in (0, 2):
            comm.recv(source=source)
        return
    comm.send("only", 1)
    is_told(lambda: comm.recv(source=1))
    is_told(lambda: comm.Send(np.zeros(LARGE, np.uint8), 1))


def case_after_a_large_message(comm):
    """Its data was read, or written into a buffer that was offered."""
    if comm.rank == 1:
        room = np.zeros(LARGE, np.uint8)
        comm.Recv(room, 0)
        assert (room == 7).all()
        return
    if comm.rank == 0:
        comm.Send(np.full(LARGE, 7, np.uint8), 1)
        is_told(lambda: comm.recv(source=1))


def case_after_an_offer(comm):
    """Rank 0 waits for a large message from the beginning; rank 1 has no news of it but an RTR."""
    if comm.rank == 0:
        is_told(lambda: comm.Recv(np.zeros(LARGE, np.uint8), 1))


def case_while_it_waits(comm):
    """Rank 1 stays until rank 2 has taken its message, which rank 2 does after rank 0 was told."""
    if comm.rank == 1:
        comm.recv(source=0)
        kept = comm.Isend(np.full(LARGE, 3, np.uint8), 2)
        assert not kept.Test()
    elif comm.rank == 0:
        comm.send("only", 1)
        is_told(lambda: comm.recv(source=1))
        comm.send("go on", 2)
    else:
        comm.recv(source=0)
        room = np.zeros(LARGE, np.uint8)
        comm.Recv(room, 1)
        assert (room == 3).all()


def case_while_it_waits_and_hears_of_one_more(comm):
    """As before, but rank 0's first packet comes when rank 1 has said FINISH to all it knew."""
    if comm.rank == 1:
        assert not comm.Isend(np.full(LARGE, 3, np.uint8), 2).Test()
    elif comm.rank == 0:
        comm.recv(source=2)
        comm.send("too late", 1)
        is_told(lambda: comm.Recv(np.zeros(LARGE, np.uint8), 1))
        comm.send("go on", 2)
    else:
        comm.Probe(1)
        comm.send("it ends", 0)
        comm.recv(source=0)
        room = np.zeros(LARGE, np.uint8)
        comm.Recv(room, 1)
        assert (room == 3).all()


if __name__ == "__main__":
    globals()[sys.argv[1]](MPI.COMM_WORLD)
