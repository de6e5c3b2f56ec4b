"""Collective calls that do not block, in a real job.  Every case runs on any number of ranks."""

import asyncio

import numpy as np

from pyrdv import MPI, errors
from tests.support.cases import raises, run

SIZES = (1, 1001, 200_003)
PAIRS = np.dtype("d,i", align=True)


def whole(comm, count):
    """What `count` numbers of each rank are, side by side."""
    return np.concatenate([np.arange(float(count)) + rank for rank in range(comm.size)])


def mine(comm, count):
    """Those of this rank."""
    return np.arange(float(count)) + comm.rank


def total(comm, count):
    """Their sum over the ranks."""
    return comm.size * np.arange(float(count)) + sum(range(comm.size))


def case_each_of_them(comm):
    for count in SIZES:
        root = count % comm.size
        rooms = {name: np.zeros(count) for name in ("reduce", "allreduce", "scatter")}
        gathered, all_of_them, exchanged = (np.zeros(count * comm.size) for _ in range(3))
        data = mine(comm, count) if comm.rank == root else np.zeros(count)
        requests = [
            comm.Ibarrier(),
            comm.Ibcast(data, root),
            comm.Igather(mine(comm, count), gathered, root),
            comm.Iscatter(whole(comm, count), rooms["scatter"], root),
            comm.Iallgather(mine(comm, count), all_of_them),
            comm.Ialltoall(np.tile(mine(comm, count), comm.size), exchanged),
            comm.Ireduce(mine(comm, count), rooms["reduce"], MPI.SUM, root),
            comm.Iallreduce(mine(comm, count), rooms["allreduce"]),
        ]
        if comm.rank % 2:
            requests.reverse()
        MPI.Request.Waitall(requests)
        assert not any(requests)
        assert np.array_equal(data, np.arange(float(count)) + root)
        assert np.array_equal(rooms["scatter"], mine(comm, count))
        assert np.array_equal(all_of_them, whole(comm, count))
        assert np.array_equal(exchanged, whole(comm, count))
        assert np.array_equal(rooms["allreduce"], total(comm, count))
        if comm.rank == root:
            assert np.array_equal(gathered, whole(comm, count))
            assert np.array_equal(rooms["reduce"], total(comm, count))


def case_a_barrier_waits_for_the_last(comm):
    if comm.rank == comm.size - 1:
        for rank in range(comm.size - 1):
            comm.Recv(np.zeros(1), rank, 3)
        request = comm.Ibarrier()
    else:
        request = comm.Ibarrier()
        for _ in range(100):
            assert not request.Test()
        comm.Send(np.zeros(1), comm.size - 1, 3)
    request.Wait()
    assert request == MPI.REQUEST_NULL


def case_beside_blocking_ones(comm):
    room, again = np.zeros(1001), np.zeros(1001)
    first = comm.Iallreduce(mine(comm, 1001), room)
    second = comm.Ibarrier()
    comm.Allreduce(mine(comm, 1001), again)
    assert comm.allgather(comm.rank) == list(range(comm.size))
    second.Wait()
    first.Wait()
    assert np.array_equal(room, total(comm, 1001)) and np.array_equal(again, room)


def case_awaited(comm):
    async def both():
        room = np.zeros(50_001)
        await comm.Iallreduce(mine(comm, 50_001), room)
        assert np.array_equal(room, total(comm, 50_001))
        rooms = [np.zeros(7) for _ in range(5)]
        await asyncio.gather(*[comm.Iallreduce(mine(comm, 7), one) for one in rooms])
        assert all(np.array_equal(one, total(comm, 7)) for one in rooms)

    asyncio.run(both())


def case_any_and_some(comm):
    rooms = [np.zeros(3) for _ in range(8)]
    requests = [comm.Iallreduce(mine(comm, 3), room) for room in rooms]
    seen = set()
    while len(seen) < 4:
        seen.add(MPI.Request.Waitany(requests))
    while any(requests):
        MPI.Request.Waitsome(requests)
    assert all(np.array_equal(room, total(comm, 3)) for room in rooms)


def case_functions_of_python(comm):
    def first(left, right, datatype):
        right[:] = left

    op = MPI.Op.Create(first)
    room = np.zeros(5)
    request = comm.Iallreduce(mine(comm, 5), room, op)
    request.Wait()
    assert np.array_equal(room, np.arange(5.0))
    places = np.zeros(2, PAIRS)
    own = np.array([(comm.rank % 3, comm.rank)] * 2, PAIRS)
    comm.Iallreduce([own, MPI.DOUBLE_INT], [places, MPI.DOUBLE_INT], MPI.MAXLOC).Wait()
    best = min(2, comm.size - 1)
    assert [tuple(place) for place in places] == [(best, best)] * 2
    long = np.ones(3, np.longdouble)
    comm.Iallreduce(MPI.IN_PLACE, long).Wait()
    assert (long == comm.size).all()


def case_requests_are_dropped(comm):
    for _ in range(20):
        data = np.full(3000, 7.0 if comm.rank == 0 else 0.0)
        request = comm.Ibcast(data, 0)
        if comm.rank % 2:
            request.Free()
        del request
    comm.Ibarrier().Wait()
    room = np.zeros(1)
    comm.Iallreduce(np.ones(1), room).Wait()
    assert room[0] == comm.size


def case_persistent(comm):
    for count in SIZES:
        data, room, all_of = mine(comm, count), np.zeros(count), np.zeros(comm.size * count)
        made = [comm.Allreduce_init(data, room), comm.Barrier_init(),
                comm.Allgather_init(data, all_of), comm.Bcast_init(room, 0)]
        for turn in range(5):
            data[:] = mine(comm, count) + turn
            MPI.Prequest.Startall(made[:3])
            MPI.Request.Waitall(made[:3])
            assert np.array_equal(room, total(comm, count) + comm.size * turn)
            assert np.array_equal(all_of, whole(comm, count) + turn)
            room[:] = turn if comm.rank == 0 else -1
            made[3].Start()
            made[3].Wait()
            assert (room == turn).all()
        for request in made:
            request.Free()
    other = comm.Dup()
    made = other.Barrier_init()
    made.Start()
    made.Wait()
    other.Free()
    with raises(errors.CommunicatorError):
        made.Start()


def case_shares_told_by_the_buffers(comm):
    counts = [rank % 3 for rank in range(comm.size)]
    ends = np.cumsum(counts)
    room = np.zeros(counts[comm.rank])
    comm.Ireduce_scatter(mine(comm, ends[-1]), room).Wait()
    end = ends[comm.rank]
    assert np.array_equal(room, total(comm, ends[-1])[end - len(room):end])
    with raises(errors.CountError, "in place"):
        comm.Ireduce_scatter(MPI.IN_PLACE, np.zeros(3))
    comm.Ibarrier().Wait()


def case_refused(comm):
    with raises(ValueError, "root"):
        comm.Ibcast(np.zeros(1), comm.size)
    with raises(TypeError, "operation"):
        comm.Ireduce(np.zeros(1), np.zeros(1), print)
    with raises(ValueError):
        MPI.COMM_NULL.Ibarrier()
    comm.Ibarrier().Wait()


def case_refused_by_one(comm):
    """The others are told wherever they wait, and go on."""
    async def awaited(request):
        await request

    waits = [lambda request: request.Wait(), lambda request: MPI.Request.Waitall([request]),
             lambda request: MPI.Request.Waitany([request]), lambda request: request.wait(),
             lambda request: asyncio.run(awaited(request)), polled]
    for count in (3, 200_000):
        for number, wait in enumerate(waits):
            bad, room = number % comm.size, np.zeros(count)
            if comm.rank == bad:
                with raises(TypeError, "operation"):
                    comm.Iallreduce(np.zeros(count), room, print)
            else:
                with raises(errors.CollectiveError, f"failed on rank {bad}", "operation"):
                    wait(comm.Iallreduce(mine(comm, count), room))
            comm.Allreduce(mine(comm, count), room)
            assert np.array_equal(room, total(comm, count))
            comm.Iallreduce(mine(comm, count), room).Wait()
            assert np.array_equal(room, total(comm, count))


def polled(request):
    while not request.Test():
        pass


run(globals())
