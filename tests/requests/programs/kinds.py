"""An object met by a receive of a buffer, and the other way round: it is said, nothing suffers."""

import asyncio
import pickle
import threading

import numpy as np

from pyrdv import MPI
from pyrdv.errors import MessageKindError
from tests.support.cases import raises, run

# Eager and not, with and without parts beside the pickle.
OBJECTS = (None, {"a": 1}, "x" * 5000, "y" * 300_000, np.zeros(100_000), [np.zeros(10_000)] * 3)
ROOMS = (0, 1, 24, 100, 1_000_000)


def around(comm):
    """(right neighbour, left neighbour)."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def receives(comm, source, tag):
    """Each way to receive a buffer, as a function of the room."""
    def started(request):
        request.Start()
        request.Wait()

    def probed(room):
        message = None
        while message is None:
            message = comm.Improbe(source, tag)
        message.Irecv(room).Wait()

    async def awaited(room):
        await comm.Irecv(room, source, tag)

    return {
        "Recv": lambda room: comm.Recv(room, source, tag),
        "Irecv": lambda room: comm.Irecv(room, source, tag).Wait(),
        "Waitall": lambda room: MPI.Request.Waitall([comm.Irecv(room, source, tag)]),
        "Waitany": lambda room: MPI.Request.Waitany([comm.Irecv(room, source, tag)]),
        "Mprobe": lambda room: comm.Mprobe(source, tag).Recv(room),
        "Improbe": probed,
        "Recv_init": lambda room: started(comm.Recv_init(room, source, tag)),
        "Sendrecv": lambda room: comm.Sendrecv(b"", MPI.PROC_NULL, 0, room, source, tag),
        "Isendrecv": lambda room: comm.Isendrecv(b"", MPI.PROC_NULL, 0, room, source, tag).Wait(),
        "from any": lambda room: comm.Recv(room),
        "await": lambda room: asyncio.run(awaited(room)),
    }


def object_receives(comm, source, tag):
    """Each way to receive an object."""
    async def awaited():
        return await comm.irecv(None, source, tag)

    def probed():
        message = None
        while message is None:
            message = comm.improbe(source, tag)
        return message.irecv().wait()

    return {
        "recv": lambda: comm.recv(None, source, tag),
        "irecv": lambda: comm.irecv(None, source, tag).wait(),
        "waitall": lambda: MPI.Request.waitall([comm.irecv(None, source, tag)]),
        "waitany": lambda: MPI.Request.waitany([comm.irecv(None, source, tag)]),
        "mprobe": lambda: comm.mprobe(source, tag).recv(),
        "improbe": probed,
        "sendrecv": lambda: comm.sendrecv(0, MPI.PROC_NULL, 0, None, source, tag),
        "from any": lambda: comm.recv(),
        "await": lambda: asyncio.run(awaited()),
    }


def object_meets_buffer(comm, dest, source):
    for name, receive in receives(comm, source, 5).items():
        for size in ROOMS:
            for obj in OBJECTS:
                request = comm.isend(obj, dest, 5)
                with raises(MessageKindError, "Python object", f"rank {source} with tag 5", "recv"):
                    receive(bytearray(size))
                request.wait()
        comm.Barrier()
        assert not comm.Iprobe(), name
        comm.Barrier()


def case_object_meets_buffer(comm):
    object_meets_buffer(comm, *around(comm))


def case_object_meets_buffer_of_its_own_rank(comm):
    object_meets_buffer(comm, comm.rank, comm.rank)


def case_posted_first(comm):
    """The receive is there, and may have offered its buffer, before the object is sent."""
    right, left = around(comm)
    for size in ROOMS:
        for obj in OBJECTS:
            receive = comm.Irecv(bytearray(size), left, 5)
            comm.Barrier()
            request = comm.isend(obj, right, 5)
            with raises(MessageKindError, "Python object"):
                receive.Wait()
            request.wait()
            receive = comm.irecv(None, left, 6)
            comm.Barrier()
            request = comm.Isend(bytearray(size + 1), right, 6)
            with raises(MessageKindError, f"{size + 1} bytes", "is a buffer"):
                receive.wait()
            request.wait()


def case_every_send_of_objects(comm):
    right, left = around(comm)
    for name in ("isend", "issend", "irsend", "ibsend", "bsend"):
        request = getattr(comm, name)([1], right, 3)
        with raises(MessageKindError, "Python object"):
            comm.Recv(bytearray(100), left, 3)
        if request is not None:
            request.wait()
    for name in ("send", "ssend", "rsend"):
        thread = threading.Thread(target=getattr(comm, name), args=(np.zeros(50_000), right, 3))
        thread.start()
        with raises(MessageKindError, "Python object"):
            comm.Recv(bytearray(100), left, 3)
        thread.join()
    MPI.Flush_buffer()


def buffer_meets_object(comm, dest, source):
    for name, receive in object_receives(comm, source, 5).items():
        for size in (1, 100, 5000, 300_000):
            # The second looks like a pickle.
            for sent in (bytes(size), b"\x80\x05" + bytes(size) + b"."):
                request = comm.Isend(sent, dest, 5)
                with raises(MessageKindError, f"{len(sent)} bytes from rank {source} with tag 5",
                            "is a buffer", "Recv"):
                    receive()
                request.Wait()
        comm.Barrier()
        assert not comm.Iprobe(), name
        comm.Barrier()


def case_buffer_meets_object(comm):
    buffer_meets_object(comm, *around(comm))


def case_buffer_meets_object_of_its_own_rank(comm):
    buffer_meets_object(comm, comm.rank, comm.rank)


def case_every_send_of_buffers(comm):
    right, left = around(comm)
    for name in ("Isend", "Issend", "Irsend", "Ibsend", "Bsend"):
        request = getattr(comm, name)(b"1", right, 3)
        with raises(MessageKindError, "is a buffer"):
            comm.recv(None, left, 3)
        if request is not None:
            request.Wait()
    request = comm.Send_init(b"1", right, 3)
    request.Start()
    with raises(MessageKindError, "is a buffer"):
        comm.recv(None, left, 3)
    request.Wait()
    request.Free()
    MPI.Flush_buffer()


def case_buffers_that_hold_a_pickle(comm):
    """As in mpi4py: what the user pickled himself is received as the object."""
    right, left = around(comm)
    for size in (1, 100, 5000, 300_000):
        for protocol in (2, 5):
            request = comm.Isend(pickle.dumps([1] * size, protocol), right, 5)
            assert comm.recv(None, left, 5) == [1] * size
            request.Wait()
            request = comm.Isend(pickle.dumps([1] * size, protocol), right, 5)
            assert MPI.Request.waitall([comm.irecv(None, left, 5)]) == [[1] * size]
            request.Wait()


def case_empty_messages_are_of_either_kind(comm):
    right, left = around(comm)
    request = comm.Isend(b"", right)
    assert comm.recv(None, left) is None
    request.Wait()


def case_probes_see_both(comm):
    right, left = around(comm)
    sends = [comm.isend("object", right, 1), comm.Isend(b"buffer", right, 2)]
    status = MPI.Status()
    assert comm.Probe(left, 1, status) and comm.probe(left, 2, status) and status.count == 6
    assert comm.recv(None, left, 1) == "object"
    room = bytearray(6)
    comm.Recv(room, left, 2)
    assert room == b"buffer"
    MPI.Request.Waitall(sends)


def case_status_tells_the_class(comm):
    right, left = around(comm)
    request = comm.isend("object", right, 1)
    status = MPI.Status()
    try:
        comm.Recv(bytearray(100), left, 1, status)
    except MessageKindError as error:
        assert isinstance(error, TypeError) and error.Get_error_class() == MPI.ERR_TYPE
        assert (error.source, error.tag) == (left, 1)
    assert status.Get_error() == MPI.ERR_TYPE and status.source == left
    request.wait()


run(globals())
