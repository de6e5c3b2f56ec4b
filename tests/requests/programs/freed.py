"""What was freed is null for whoever looks at it, and goes on all the same."""

import asyncio
import threading
import time

import numpy as np

from pyrdv import MPI
from tests.support.cases import run

TAG = 4


def around(comm):
    """(right neighbour, left neighbour)."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


async def one(request):
    return await request


LOOKS = {
    "Wait": lambda request: request.Wait() is True,
    "wait": lambda request: request.wait() is None,
    "Test": lambda request: request.Test() is True,
    "test": lambda request: request.test() == (True, None),
    "Get_status": lambda request: request.Get_status() is True,
    "Waitall": lambda request: MPI.Request.Waitall([request]) is True,
    "waitall": lambda request: MPI.Request.waitall([request, request]) == [None, None],
    "Waitany": lambda request: MPI.Request.Waitany([request]) == MPI.UNDEFINED,
    "waitsome": lambda request: MPI.Request.waitsome([request]) == (None, None),
    "Testall": lambda request: MPI.Request.Testall([request]) is True,
    "Testany": lambda request: MPI.Request.Testany([request]) == (MPI.UNDEFINED, True),
    "Cancel": lambda request: request.Cancel() is None and request.Test() is True,
    "free": lambda request: request.free() is None,
    "a second handle": lambda request: MPI.Request(request).Wait() is True,
    "await": lambda request: asyncio.run(one(request)) is None,
}


def started(request):
    request.Start()
    return request


def receives(comm, source):
    """Ways to begin a receive."""
    return {
        "Irecv": lambda: comm.Irecv(np.zeros(100_000), source, TAG),
        "irecv": lambda: comm.irecv(None, source, TAG),
        "Recv_init": lambda: started(comm.Recv_init(np.zeros(100_000), source, TAG)),
        "Isendrecv": lambda: comm.Isendrecv(b"", MPI.PROC_NULL, 0, np.zeros(9), source, TAG),
    }


def sends(comm, dest):
    """Ways to begin a send that waits for its receive, all of an object."""
    parts = [np.ones(20_000), np.ones(300_000)]
    return {"isend": lambda: comm.isend(parts, dest, TAG),
            "issend": lambda: comm.issend("small", dest, TAG),
            "issend of parts": lambda: comm.issend(parts, dest, TAG)}


def case_freed_receives_are_null(comm):
    """No look waits for a message that nobody sends before all have looked."""
    right, left = around(comm)
    for make in receives(comm, left).values():
        for name, look in LOOKS.items():
            request = make()
            request.Free()
            assert not request and request == MPI.REQUEST_NULL
            assert look(request), name
        comm.Barrier()
        # Each takes the message that it stands for.
        for _ in LOOKS:
            comm.send("taken", right, TAG)
        comm.send("left over", right, TAG + 1)
        assert comm.recv(None, left, TAG + 1) == "left over"
        assert not comm.Iprobe(left, TAG)
        comm.Barrier()


def case_freed_sends_are_null(comm):
    """They arrive whole; no look waits for their receive."""
    right, left = around(comm)
    for make in sends(comm, right).values():
        for name, look in LOOKS.items():
            request = make()
            request.Free()
            assert not request and request == MPI.REQUEST_NULL
            assert look(request), name
        del request
        comm.Barrier()
        for _ in LOOKS:
            got = comm.recv(None, left, TAG)
            assert got == "small" or all((part == 1).all() for part in got)
        comm.Barrier()


def case_freed_without_a_communicator(comm):
    """Requests of PROC_NULL and of the message that is none."""
    for make in (lambda: comm.irecv(None, MPI.PROC_NULL), lambda: comm.isend(1, MPI.PROC_NULL),
                 lambda: MPI.MESSAGE_NO_PROC.irecv(), lambda: comm.improbe(MPI.PROC_NULL).irecv(),
                 MPI.Grequest.Start):
        request = make()
        request.Free()
        assert not request and request.Test()


def case_freed_while_awaited(comm):
    """Another thread frees what a loop awaits: the await ends at once, as of a null request."""
    right, left = around(comm)
    makes = [*receives(comm, left).values(), MPI.Grequest.Start]
    for make in makes:
        request = make()
        begun = threading.Event()

        async def main(request=request, begun=begun):
            task = asyncio.ensure_future(one(request))
            await asyncio.sleep(0.02)
            begun.set()
            return await asyncio.wait_for(task, 30)

        def free(request=request, begun=begun):
            begun.wait(30)
            time.sleep(0.02)
            request.Free()

        freer = threading.Thread(target=free)
        freer.start()
        began = time.monotonic()
        assert asyncio.run(main()) is None
        assert time.monotonic() - began < 20
        freer.join()
    comm.Barrier()
    for _ in makes[:-1]:
        comm.send("taken", right, TAG)


run(globals())
