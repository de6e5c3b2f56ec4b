"""A program as users write them, for type checkers: `.ci/lint` gives it to mypy --strict.

test_stubs.py also runs it, on two ranks, so that what type checks works.
"""

import asyncio
from typing import assert_type

import numpy as np
import numpy.typing as npt

from pyrdv import MPI
from pyrdv.errors import PeerLostError, TruncationError

comm: MPI.Intracomm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
assert_type(rank, int)
peer: int = (rank + 1) % size


def buffers(room: npt.NDArray[np.float64]) -> None:
    """Every way to write a buffer."""
    requests: list[MPI.Request] = [
        comm.Isend(np.arange(4.0), dest=peer, tag=1),
        comm.Isend([np.arange(4.0), MPI.DOUBLE], dest=peer, tag=2),
        comm.Isend([bytearray(32), 4, MPI.DOUBLE], dest=peer, tag=3),
        comm.Isend((memoryview(b"abc"), 2, "b"), dest=peer, tag=4),
        comm.Isend(None, dest=peer, tag=5),
    ]
    status = MPI.Status()
    for tag in range(1, 6):
        comm.Recv([room, MPI.DOUBLE] if tag < 4 else bytearray(8), peer, tag, status)
        assert status.Get_source() == status.source == peer
    assert_type(status.Get_count(MPI.BYTE), int)
    assert_type(MPI.Request.Waitany(requests), int)
    MPI.Request.Waitall(requests, [MPI.Status() for _ in requests])
    comm.Sendrecv(np.ones(2), peer, 6, recvbuf=np.empty(2), source=peer, recvtag=MPI.ANY_TAG)


def probes() -> None:
    """A matched probe gives a message."""
    request = comm.isend({"answer": 42}, dest=peer, tag=8)
    message = comm.improbe(MPI.ANY_SOURCE, 8)
    if message is None:
        message = comm.Mprobe(source=MPI.ANY_SOURCE, tag=8)
    assert_type(message, MPI.Message)
    assert message.recv() == {"answer": 42}
    flag, nothing = request.test()
    assert_type(flag, bool)
    request.wait()


async def awaited(room: npt.NDArray[np.float64]) -> None:
    """Requests can be awaited."""
    request = comm.Isend(np.full(4, 7.0), dest=peer, tag=9)
    await comm.Irecv(room, source=peer, tag=9)
    await request


def collectives() -> None:
    """And all members act together."""
    total = np.zeros(1)
    comm.Allreduce(np.ones(1), total, op=MPI.SUM)
    comm.Allreduce(MPI.IN_PLACE, total)
    assert comm.allreduce(rank, MPI.MAX) == size - 1
    copy = comm.Dup()
    assert_type(copy, MPI.Intracomm)
    copy.Barrier()
    copy.Free()


try:
    buffers(np.empty(4))
    probes()
    asyncio.run(awaited(np.empty(4)))
    collectives()
except TruncationError as error:
    print(error.message_bytes - error.buffer_bytes)
    raise
except PeerLostError as error:
    print(error.peer, error.reason, error.Get_error_class() == MPI.ERR_PROC_FAILED)
    raise
except MPI.Exception as error:
    print(error.error_class)
    raise
print("typed program: good")
