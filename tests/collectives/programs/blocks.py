"""Collective operations against what NumPy says.  Every case runs on any number of ranks."""

import numpy as np

from pyrdv import MPI
from tests.support.cases import raises, run


def mine(comm, rank=None):
    """Three numbers of one rank."""
    rank = comm.rank if rank is None else rank
    return np.arange(3.0) + 10 * rank


def everything(comm):
    """Those of all ranks, side by side."""
    return np.concatenate([mine(comm, rank) for rank in range(comm.size)])


def case_gather_and_scatter(comm):
    root = comm.size - 1
    whole = np.zeros(3 * comm.size) if comm.rank == root else None
    comm.Gather(mine(comm), whole, root)
    assert whole is None or np.array_equal(whole, everything(comm))
    back = np.zeros(3)
    comm.Scatter(whole, back, root)
    assert np.array_equal(back, mine(comm))
    if comm.rank == root:
        comm.Gather(MPI.IN_PLACE, whole, root)
        comm.Scatter(whole, MPI.IN_PLACE, root)
        assert np.array_equal(whole, everything(comm))
    else:
        comm.Gather(mine(comm), None, root)
        comm.Scatter(None, back, root)


def case_uneven_blocks(comm):
    counts = [rank + 1 for rank in range(comm.size)]
    displs = [10 * rank for rank in range(comm.size)]
    own = np.full(comm.rank + 1, comm.rank, np.int32)
    whole = np.full(10 * comm.size, -1, np.int32)
    comm.Allgatherv(own, [whole, counts, displs, MPI.INT])
    for rank in range(comm.size):
        block = whole[10 * rank:10 * (rank + 1)]
        assert list(block) == [rank] * (rank + 1) + [-1] * (9 - rank)
    again = np.full_like(whole, -1)
    comm.Gatherv(own, [again, counts, displs, MPI.INT], 0)
    assert comm.rank or np.array_equal(again, whole)
    back = np.zeros(comm.rank + 1, np.int32)
    comm.Scatterv([whole, counts, displs, MPI.INT], back, 0)
    assert np.array_equal(back, own)


def case_allgather(comm):
    whole = np.zeros(3 * comm.size)
    comm.Allgather(mine(comm), whole)
    assert np.array_equal(whole, everything(comm))
    whole[:] = 0
    whole[3 * comm.rank:3 * comm.rank + 3] = mine(comm)
    comm.Allgather(MPI.IN_PLACE, whole)
    assert np.array_equal(whole, everything(comm))


def case_alltoall(comm):
    out = np.array([100 * comm.rank + rank for rank in range(comm.size)])
    into = np.zeros_like(out)
    wanted = [100 * rank + comm.rank for rank in range(comm.size)]
    comm.Alltoall(out, into)
    assert list(into) == wanted
    comm.Alltoall(MPI.IN_PLACE, out)
    assert list(out) == wanted
    out = np.repeat([100 * comm.rank + rank for rank in range(comm.size)], comm.rank + 1)
    into = np.zeros(sum(range(1, comm.size + 1)), out.dtype)
    comm.Alltoallv([out, [comm.rank + 1] * comm.size],
                   [into, [rank + 1 for rank in range(comm.size)]])
    assert list(into) == [100 * rank + comm.rank for rank in range(comm.size)
                          for _ in range(rank + 1)]


def case_large_blocks(comm):
    """Beyond what is sent eagerly."""
    size = 300_000
    out = np.repeat(np.arange(comm.size, dtype=np.uint8) + comm.rank, size)
    into = np.zeros_like(out)
    comm.Alltoall(out, into)
    assert np.array_equal(into, np.repeat(np.arange(comm.size, dtype=np.uint8) + comm.rank, size))


def case_reductions_in_rank_order(comm):
    """The operation is not commutative: one function after another, each z -> a z + b."""
    def function(first, second, datatype):
        (a, b), then = np.frombuffer(first, np.int64), np.frombuffer(second, np.int64)
        then[:] = a * then[0], b * then[0] + then[1]

    op = MPI.Op.Create(function)
    own = np.array([comm.rank + 2, comm.rank + 1])

    def folded(count):
        scale, shift = 1, 0
        for rank in range(count):
            scale, shift = scale * (rank + 2), shift * (rank + 2) + rank + 1
        return [scale, shift]

    for root in range(comm.size):
        into = np.zeros_like(own)
        comm.Reduce(own, into, op, root)
        assert list(into) == (folded(comm.size) if comm.rank == root else [0, 0])
    into = np.zeros_like(own)
    comm.Allreduce(own, into, op)
    assert list(into) == folded(comm.size)
    comm.Scan(own, into, op)
    assert list(into) == folded(comm.rank + 1)
    into[:] = -1
    comm.Exscan(own, into, op)
    assert list(into) == (folded(comm.rank) if comm.rank else [-1, -1])
    op.Free()


def case_reduce_scatter(comm):
    own = np.arange(2.0 * comm.size) + comm.rank
    total = sum(np.arange(2.0 * comm.size) + rank for rank in range(comm.size))
    into = np.zeros(2)
    comm.Reduce_scatter_block(own, into)
    assert np.array_equal(into, total[2 * comm.rank:2 * comm.rank + 2])
    counts = [0] * comm.size
    counts[-1] = 2 * comm.size
    into = np.zeros(counts[comm.rank])
    comm.Reduce_scatter(own, into, counts)
    assert comm.rank != comm.size - 1 or np.array_equal(into, total)


def case_objects(comm):
    everybody = [{"rank": rank} for rank in range(comm.size)]
    own = everybody[comm.rank]
    for root in range(comm.size):
        assert comm.gather(own, root) == (everybody if comm.rank == root else None)
        assert comm.scatter(everybody if comm.rank == root else None, root) == own
    assert comm.allgather(own) == everybody
    assert comm.alltoall([(comm.rank, rank) for rank in range(comm.size)]) \
        == [(rank, comm.rank) for rank in range(comm.size)]
    assert comm.reduce([comm.rank]) == (list(range(comm.size)) if comm.rank == 0 else None)
    assert comm.scan([comm.rank]) == list(range(comm.rank + 1))
    assert comm.exscan([comm.rank]) == (list(range(comm.rank)) if comm.rank else None)


def case_wrong_sizes_are_refused(comm):
    if comm.size > 1:
        with raises(MPI.Exception, "evenly", comm.size):
            comm.Allgather(b"", bytearray(comm.size + 1))
    with raises(MPI.Exception, "alltoall", comm.size + 1):
        comm.alltoall([0] * (comm.size + 1))
    with raises(MPI.Exception, "scatter", comm.size + 1):
        MPI.COMM_SELF.scatter([0] * (comm.size + 1))


run(globals())
