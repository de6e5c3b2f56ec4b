"""Collective calls that do not block: what each member calls, and what NumPy says of the result.

Each function makes, for the members of one call, ``(starts, check)``: functions that start it, one
per rank, and one that checks the result.
"""

import numpy as np

from pyrdv.api.buffers import IN_PLACE
from pyrdv.api.ops import BAND, MAX, MIN, PROD, SUM


def values(rng, count, dtype=np.int64):
    """Small whole numbers, so that sums and products are the same in any order."""
    return np.array([rng.randrange(-4, 5) for _ in range(count)]).astype(dtype)


def barrier(rng, size, count):
    return [lambda comm: comm.Ibarrier()] * size, lambda: None


def bcast(rng, size, count):
    root = rng.randrange(size)
    data = values(rng, count)
    rooms = [data.copy() if rank == root else np.zeros(count, np.int64) for rank in range(size)]

    def check():
        assert all((room == data).all() for room in rooms)

    return [lambda comm, room=room: comm.Ibcast(room, root) for room in rooms], check


def gather(rng, size, count):
    root, place = rng.randrange(size), rng.random() < 0.3
    data = [values(rng, count) for _ in range(size)]
    room = np.zeros((size, count), np.int64)
    if place:
        room[root] = data[root]

    def call(rank):
        if rank != root:
            return lambda comm: comm.Igather(data[rank], None, root)
        return lambda comm: comm.Igather(IN_PLACE if place else data[rank], room, root)

    def check():
        assert (room == np.array(data)).all()

    return [call(rank) for rank in range(size)], check


def gatherv(rng, size, count):
    root = rng.randrange(size)
    counts = [rng.randrange(count + 1) for _ in range(size)]
    data = [values(rng, n) for n in counts]
    room = np.zeros(sum(counts), np.int64)

    def call(rank):
        if rank != root:
            return lambda comm: comm.Igatherv(data[rank], None, root)
        return lambda comm: comm.Igatherv(data[rank], [room, counts], root)

    def check():
        assert (room == np.concatenate(data)).all()

    return [call(rank) for rank in range(size)], check


def scatter(rng, size, count):
    root, place = rng.randrange(size), rng.random() < 0.3
    data = values(rng, size * count).reshape(size, count)
    before = data.copy()
    rooms = [np.zeros(count, np.int64) for _ in range(size)]

    def call(rank):
        if rank != root:
            return lambda comm: comm.Iscatter(None, rooms[rank], root)
        return lambda comm: comm.Iscatter(data, IN_PLACE if place else rooms[rank], root)

    def check():
        assert all((rooms[rank] == before[rank]).all() for rank in range(size)
                   if rank != root or not place)

    return [call(rank) for rank in range(size)], check


def allgather(rng, size, count):
    data = [values(rng, count) for _ in range(size)]
    rooms = [np.zeros((size, count), np.int64) for _ in range(size)]
    place = rng.random() < 0.3
    for rank in range(size if place else 0):
        rooms[rank][rank] = data[rank]

    def check():
        assert all((room == np.array(data)).all() for room in rooms)

    return [lambda comm, rank=rank: comm.Iallgather(IN_PLACE if place else data[rank], rooms[rank])
            for rank in range(size)], check


def allgatherv(rng, size, count):
    counts = [rng.randrange(count + 1) for _ in range(size)]
    data = [values(rng, n) for n in counts]
    rooms = [np.zeros(sum(counts), np.int64) for _ in range(size)]

    def check():
        assert all((room == np.concatenate(data)).all() for room in rooms)

    return [lambda comm, rank=rank: comm.Iallgatherv(data[rank], [rooms[rank], counts])
            for rank in range(size)], check


def alltoall(rng, size, count):
    data = [values(rng, size * count).reshape(size, count) for _ in range(size)]
    before = np.array(data)
    place = rng.random() < 0.3
    rooms = data if place else [np.zeros((size, count), np.int64) for _ in range(size)]

    def check():
        for rank in range(size):
            assert (rooms[rank] == before[:, rank]).all()

    return [lambda comm, rank=rank: comm.Ialltoall(IN_PLACE if place else data[rank], rooms[rank])
            for rank in range(size)], check


def alltoallv(rng, size, count):
    counts = [[rng.randrange(count // size + 2) for _ in range(size)] for _ in range(size)]
    data = [[values(rng, n) for n in row] for row in counts]
    rooms = [np.zeros(sum(counts[source][rank] for source in range(size)), np.int64)
             for rank in range(size)]

    def call(rank):
        mine = np.concatenate(data[rank])
        column = [counts[source][rank] for source in range(size)]
        return lambda comm: comm.Ialltoallv([mine, counts[rank]], [rooms[rank], column])

    def check():
        for rank in range(size):
            assert (rooms[rank] == np.concatenate([data[source][rank]
                                                   for source in range(size)])).all()

    return [call(rank) for rank in range(size)], check


FOLDS = {SUM: np.add, PROD: np.multiply, MAX: np.maximum, MIN: np.minimum, BAND: np.bitwise_and}


def reduce(rng, size, count):
    root, op, place = rng.randrange(size), rng.choice(list(FOLDS)), rng.random() < 0.3
    dtype = rng.choice((np.int64, np.float32, np.float16) if op is not BAND else (np.int64,))
    data = [values(rng, count, dtype) for _ in range(size)]
    expected = FOLDS[op].reduce(np.array(data), dtype=dtype)
    room = data[root].copy() if place else np.zeros(count, dtype)

    def call(rank):
        if rank != root:
            return lambda comm: comm.Ireduce(data[rank], None, op, root)
        return lambda comm: comm.Ireduce(IN_PLACE if place else data[rank], room, op, root)

    def check():
        assert (room == expected).all()

    return [call(rank) for rank in range(size)], check


def allreduce(rng, size, count):
    op, place = rng.choice(list(FOLDS)), rng.random() < 0.3
    dtype = rng.choice((np.int64, np.float64, np.int8) if op is not BAND else (np.int64,))
    data = [values(rng, count, dtype) for _ in range(size)]
    expected = FOLDS[op].reduce(np.array(data), dtype=dtype)
    rooms = [one.copy() if place else np.zeros(count, dtype) for one in data]

    def check():
        assert all((room == expected).all() for room in rooms)

    return [lambda comm, rank=rank: comm.Iallreduce(
        IN_PLACE if place else data[rank], rooms[rank], op) for rank in range(size)], check


def shares_of(rng, size, op, dtype, counts):
    """Contributions of all ranks, and what each gets of the result."""
    data = [values(rng, sum(counts), dtype) for _ in range(size)]
    folded = FOLDS[op].reduce(np.array(data), dtype=dtype)
    return data, np.split(folded, np.cumsum(counts)[:-1])


def reduce_scatter(rng, size, count):
    op, place = rng.choice(list(FOLDS)), rng.random() < 0.3
    dtype = rng.choice((np.int64, np.float32, np.float16) if op is not BAND else (np.int64,))
    counts = [rng.randrange(count + 1) for _ in range(size)]
    data, expected = shares_of(rng, size, op, dtype, counts)
    rooms = [data[rank] if place else np.zeros(n, dtype) for rank, n in enumerate(counts)]

    def check():
        assert all((room[:n] == part).all() for room, n, part in zip(rooms, counts, expected,
                                                                      strict=True))

    return [lambda comm, rank=rank: comm.Ireduce_scatter(
        IN_PLACE if place else data[rank], rooms[rank], counts, op) for rank in range(size)], check


def reduce_scatter_block(rng, size, count):
    op, place = rng.choice(list(FOLDS)), rng.random() < 0.3
    dtype = rng.choice((np.int64, np.float64, np.int16) if op is not BAND else (np.int64,))
    data, expected = shares_of(rng, size, op, dtype, [count] * size)
    rooms = [data[rank] if place else np.zeros(count, dtype) for rank in range(size)]

    def check():
        assert all((room[:count] == part).all() for room, part in zip(rooms, expected,
                                                                       strict=True))

    return [lambda comm, rank=rank: comm.Ireduce_scatter_block(
        IN_PLACE if place else data[rank], rooms[rank], op) for rank in range(size)], check


def scan(rng, size, count):
    return cumulative(rng, size, count, "Iscan", 1)


def exscan(rng, size, count):
    return cumulative(rng, size, count, "Iexscan", 0)


def cumulative(rng, size, count, name, more):
    op, place = rng.choice(list(FOLDS)), rng.random() < 0.3
    dtype = rng.choice((np.int64, np.float32, np.float16) if op is not BAND else (np.int64,))
    data = [values(rng, count, dtype) for _ in range(size)]
    rooms = [one.copy() if place else np.full(count, 77, dtype) for one in data]
    expected = [FOLDS[op].reduce(np.array(data[:rank + more]), dtype=dtype) if rank + more
                else rooms[rank].copy() for rank in range(size)]

    def check():
        assert all((room == part).all() for room, part in zip(rooms, expected, strict=True))

    return [lambda comm, rank=rank: getattr(comm, name)(
        IN_PLACE if place else data[rank], rooms[rank], op) for rank in range(size)], check


CALLS = {made.__name__: made for made in (
    barrier, bcast, gather, gatherv, scatter, allgather, allgatherv, alltoall, alltoallv, reduce,
    allreduce, reduce_scatter, reduce_scatter_block, scan, exscan)}
