"""What a send of an object sends that returns before the data has left: the object as it was."""

import array
import pickle

import numpy as np

from pyrdv import MPI
from tests.support.cases import run

SIZES = (8, 3000, 70_000, 1_000_000)
NAMES = ("isend", "issend", "irsend", "ibsend", "bsend", "send")


def around(comm):
    """(right neighbour, left neighbour)."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def changed_at_once(comm, dest, source):
    """Every call, every size: what arrives is what the object held in the call."""
    for tag, name in enumerate(NAMES):
        if name == "send" and (dest == MPI.PROC_NULL or dest != comm.rank):
            continue        # it may wait for the receive
        for size in SIZES:
            sent = np.full(size, 7, np.uint8)
            request = getattr(comm, name)({"array": sent, "slice": sent[::2]}, dest, tag)
            sent[:] = 0
            if source != MPI.PROC_NULL:
                got = comm.recv(None, source, tag)
                assert (got["array"] == 7).all() and (got["slice"] == 7).all(), (name, size)
                assert got["array"].flags.writeable
            if request is not None:
                request.wait()
    MPI.Flush_buffer()


def case_arrays_may_change(comm):
    changed_at_once(comm, *around(comm))


def case_arrays_may_change_on_the_way_to_oneself(comm):
    changed_at_once(comm, comm.rank, comm.rank)


def case_nothing_is_copied_to_nobody(comm):
    changed_at_once(comm, MPI.PROC_NULL, MPI.PROC_NULL)


def case_views_that_cannot_be_written_to_may_change(comm):
    """A read-only view of an array that its owner goes on writing."""
    right, left = around(comm)
    base = np.full(200_000, 7, np.uint8)
    view = base.view()
    view.flags.writeable = False
    request = comm.isend(view, right)
    base[:] = 0
    got = comm.recv(None, left)
    assert (got == 7).all() and not got.flags.writeable
    request.wait()


def case_bytearrays_stay_resizable(comm):
    """Nobody holds on to their memory when the call has returned, be the message received or not."""
    right, left = around(comm)
    for size in SIZES:
        for held in (bytearray(b"7" * size), array.array("B", b"7" * size)):
            request = comm.isend({"held": held}, right)
            held.extend(b"more")
            held[:] = type(held)("B", b"") if isinstance(held, array.array) else b""
            got = comm.recv(None, left)["held"]
            assert bytes(got) == b"7" * size and type(got) is type(held)
            request.wait()


def case_bytes_travel_as_they_are(comm):
    """They cannot change, so they are not copied: what is sent is the object itself."""
    right, left = around(comm)
    sent = bytes(500_000)
    request = comm.isend(sent, right)
    assert comm.recv(None, left) == sent
    request.wait()


def case_pickles_that_their_maker_reuses(comm):
    """A dumps of the user's that returns the same bytearray each time."""
    right, left = around(comm)
    reused = bytearray()

    def dumps(obj, protocol=None):
        reused[:] = pickle.dumps(obj, protocol)
        return reused

    MPI.pickle.__init__(dumps)
    try:
        for tag, size in enumerate(SIZES):
            request = comm.isend(b"7" * size, right, tag)
            own = comm.issend(b"8" * size, comm.rank, 10 + tag)
            comm.send(b"9" * size, comm.rank, 20 + tag)
            reused[:] = b"nothing"
            assert comm.recv(None, left, tag) == b"7" * size
            assert comm.recv(None, comm.rank, 10 + tag) == b"8" * size
            assert comm.recv(None, comm.rank, 20 + tag) == b"9" * size
            request.wait()
            own.wait()
    finally:
        MPI.pickle.__init__()


def case_sendrecv_copies_nothing_and_needs_not(comm):
    right, left = around(comm)
    sent = np.full(1_000_000, comm.rank, np.uint8)
    got = comm.sendrecv(sent, right, 1, None, left, 1)
    assert (got == left).all() and got is not sent


run(globals())
