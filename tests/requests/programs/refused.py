"""Objects that nobody gets, between real processes: no sender waits for ever."""

import gc
import threading
import weakref

import numpy as np

from pyrdv import MPI
from pyrdv.errors import MessageKindError
from tests.support.cases import raises, run

# The head goes eagerly, or its receiver fetches it like the parts.
HEADS = ("", "x" * 400_000)


def around(comm):
    """(right neighbour, left neighbour)."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def boxed(text):
    """An object with parts above and below the limit of eager messages."""
    return [text, np.arange(200_000), np.arange(10_000)]


def matched(comm, source):
    """A receive whose message has come, as no call that helps has seen."""
    request = comm.irecv(None, source, 5)
    while comm.engine.counters()["posted"]:
        comm.engine.turn()
    return request


def freed(request):
    request.Free()
    assert request == MPI.REQUEST_NULL


def leaves(comm, source):
    """Each way to leave a message that was matched, or that a receive of a buffer stands for."""
    return {
        "irecv": lambda: matched(comm, source),
        "irecv freed": lambda: freed(comm.irecv(None, source, 5)),
        "irecv freed when matched": lambda: freed(matched(comm, source)),
        "mprobe": lambda: comm.mprobe(source, 5),
        "mprobe, irecv": lambda: comm.mprobe(source, 5).irecv(),
        "mprobe, irecv freed": lambda: freed(comm.mprobe(source, 5).irecv()),
        "mprobe, Irecv": lambda: comm.mprobe(source, 5).Irecv(bytearray(7)),
        "Irecv": lambda: comm.Irecv(bytearray(1000), source, 5),
        "Irecv without room": lambda: comm.Irecv(bytearray(7), source, 5),
        "Irecv freed": lambda: freed(comm.Irecv(bytearray(1000), source, 5)),
    }


def case_whoever_leaves_a_message(comm):
    """The sender's request ends by what this process does next."""
    right, left = around(comm)
    for leave in leaves(comm, left).values():
        for text in HEADS:
            request = comm.isend(boxed(text), right, 5)
            leave()
            gc.collect()
            request.wait()
            # It goes on until the other has taken this.
            comm.sendrecv(None, right, 6, None, left, 6)
            comm.Barrier()
    assert not comm.Iprobe()


def case_a_buffer_without_room_for_the_head(comm):
    """Wherever the head's beginning went, the receiver learns what it has met."""
    right, left = around(comm)
    for room in (0, 1, 23, 24, 100, 1_000_000):
        for text in HEADS:
            buffer = bytearray(room)
            status = MPI.Status()
            request = comm.isend(boxed(text), right, 5)
            with raises(MessageKindError, "Python object", f"rank {left} with tag 5"):
                comm.Recv(buffer, left, 5, status)
            request.wait()
            assert status.Get_error() == MPI.ERR_TYPE and status.count <= room
            comm.Barrier()


def case_a_blocking_send_meets_a_buffer(comm):
    """`send` and `ssend` return as well."""
    right, left = around(comm)
    for send in (comm.send, comm.ssend):
        for text in HEADS:
            thread = threading.Thread(target=send, args=(boxed(text), right, 5))
            thread.start()
            with raises(MessageKindError, "Python object"):
                comm.Recv(bytearray(3), left, 5)
            thread.join()
        comm.Barrier()


def case_arrays_of_dropped_sends_are_let_go(comm):
    """Not all of them at once, but no more than some 16 MiB wait for that."""
    right, left = around(comm)
    nbytes, alive = 6 << 20, []
    for turn in range(20):
        array = np.full(nbytes, turn, np.uint8)
        comm.Isend(array, right).Free()
        alive.append(weakref.ref(array))
        del array
        comm.Barrier()
        comm.Recv(np.empty(nbytes, np.uint8), left)
        comm.Barrier()
        alive = [array for array in alive if array() is not None]
        assert len(alive) <= 4


def case_a_dropped_send_reaches_its_receiver(comm):
    """A request of an object that nobody waits for: all parts follow."""
    right, left = around(comm)
    for text in HEADS:
        comm.isend(boxed(text), right, 5)
        comm.isend(boxed(text), right, 5).Free()
        for _ in range(2):
            got = comm.recv(None, left, 5)
            assert got[0] == text and got[1][-1] == 199_999 and got[2][-1] == 9_999


run(globals())
