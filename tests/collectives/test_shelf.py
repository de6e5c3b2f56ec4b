"""Schedules that are kept for the next call of the same shape: `pyrdv.api.shelf`."""

import gc
import random
import weakref

import numpy as np
import pytest

from pyrdv.api.buffers import IN_PLACE
from pyrdv.api.datatypes import BYTE, DOUBLE
from pyrdv.api.ops import MAX, SUM, Op
from pyrdv.errors import CollectiveError, InvalidBufferError
from tests.collectives.test_nonblocking import comms_of, go_on
from tests.conformance.worlds import KINDS


@pytest.fixture
def pair():
    """Two ranks on the simulated network: (world, communicators)."""
    with KINDS["sim"](2, seed=4) as w:
        yield w, comms_of(w)


def kept(comm):
    """How many schedules wait on the shelf of a communicator."""
    return len(comm.identity.shelf or ())


def allreduce(w, comms, arrays, op=SUM):
    """One call; the results, which are compared with NumPy's."""
    rooms = [np.full_like(array, 7) for array in arrays]
    w.run(*[comm.Iallreduce(array, room, op)
            for comm, array, room in zip(comms, arrays, rooms, strict=True)])
    right = sum(arrays) if op is SUM else np.maximum(*arrays)
    for room in rooms:
        assert (room == right).all()
    return rooms


def test_the_next_call_of_a_shape_takes_it(pair):
    w, comms = pair
    for turn in range(20):
        allreduce(w, comms, [np.arange(5.0) + turn, np.arange(5.0) * turn])
        assert [kept(comm) for comm in comms] == [1, 1]


def test_lists_that_name_the_datatype_of_an_array(pair):
    """They share its schedule; those that say more, or something else, have none."""
    w, comms = pair
    data = [np.arange(5.0), np.ones(5)]
    for forms in (lambda one: one, lambda one: [one, DOUBLE], lambda one: (one, DOUBLE)):
        rooms = [np.zeros(5), np.zeros(5)]
        w.run(*[comm.Iallreduce(forms(data[rank]), forms(rooms[rank]))
                for rank, comm in enumerate(comms)])
        assert all((room == sum(data)).all() for room in rooms)
        assert [kept(comm) for comm in comms] == [1, 1]
    for form in (lambda one: [one, 3, DOUBLE], lambda one: [one, BYTE], lambda one: [one, 4]):
        rooms = [np.zeros(5), np.zeros(5)]
        w.run(*[comm.Ibcast(form(data[0].copy() if rank == 0 else rooms[1]), 0)
                for rank, comm in enumerate(comms)])
        assert [kept(comm) for comm in comms] == [1, 1]
        assert (rooms[1][:3] == data[0][:3]).all()


def test_what_differs_has_another_one(pair):
    """Datatypes of one size, operations, sizes, in place or not: each call is right."""
    w, comms = pair
    rng = random.Random(2)
    seen = set()
    for _ in range(60):
        dtype, count = rng.choice((np.int64, np.float64, np.uint32)), rng.choice((3, 6, 4000))
        op = rng.choice((SUM, MAX))
        data = [np.array([rng.randrange(1000) for _ in range(count)], dtype) for _ in range(2)]
        if rng.random() < 0.5:
            allreduce(w, comms, data, op)
            seen.add((dtype, count, op, False))
        else:
            right = sum(data) if op is SUM else np.maximum(*data)
            w.run(*[comm.Iallreduce(IN_PLACE, one, op)
                    for comm, one in zip(comms, data, strict=True)])
            assert all((one == right).all() for one in data)
            seen.add((dtype, count, op, True))
    assert [kept(comm) for comm in comms] == [len(seen), len(seen)]


def test_several_under_way(pair):
    """Each has a schedule of its own, and a few of a shape are kept."""
    w, comms = pair
    for _ in range(3):
        data = [[np.full(9, 10 * number + rank) for rank in range(2)] for number in range(7)]
        rooms = [[np.zeros(9, np.int64) for _ in range(2)] for _ in range(7)]
        w.run(*[comms[rank].Iallreduce(data[number][rank], rooms[number][rank])
                for number in range(7) for rank in range(2)])
        assert all((rooms[number][rank] == 20 * number + 1).all()
                   for number in range(7) for rank in range(2))
        assert [kept(comm) for comm in comms] == [4, 4]


def test_it_keeps_no_memory_of_the_user(pair):
    w, comms = pair
    for _ in range(3):
        arrays = [np.ones(30_000) for _ in range(2)]
        rooms = allreduce(w, comms, arrays)
        refs = [weakref.ref(one) for one in (*arrays, *rooms)]
        gc.disable()
        try:
            del arrays, rooms
            assert [ref() for ref in refs] == [None] * 4
        finally:
            gc.enable()


def test_a_communicator_with_a_shelf_goes_at_once(pair):
    """No cycle holds it."""
    w, comms = pair
    allreduce(w, comms, [np.ones(3), np.ones(3)])
    ref = weakref.ref(comms[0].identity)
    gc.disable()
    try:
        del comms
        pair[1].clear()
        assert ref() is None
    finally:
        gc.enable()


def test_what_cannot_be_written_is_refused_again(pair):
    """A read-only buffer of a known shape: the error that a new call has, and the other is told."""
    w, comms = pair
    allreduce(w, comms, [np.ones(3), np.ones(3)])
    room = np.zeros(3)
    room.flags.writeable = False
    request = comms[0].Iallreduce(np.ones(3), np.zeros(3))
    with pytest.raises(InvalidBufferError, match="read-only"):
        comms[1].Iallreduce(np.ones(3), room)
    with pytest.raises(CollectiveError, match="failed on rank 1"):
        w.run(request)
    assert not room.any()
    for _ in range(4):
        allreduce(w, comms, [np.ones(3), np.ones(3)])


def test_buffers_that_meet_have_none(pair):
    """Halves of one array, and blocks of the receive buffer itself, are looked at each time."""
    w, comms = pair
    for _ in range(3):
        whole = [np.arange(8.0) for _ in range(2)]
        w.run(*[comm.Iallgather(one[2:6], one) for comm, one in zip(comms, whole, strict=True)])
        assert all(list(one) == [2, 3, 4, 5, 2, 3, 4, 5] for one in whole)
        halves = [np.arange(8.0) for _ in range(2)]
        w.run(*[comm.Iallreduce(one[:4], one[4:]) for comm, one in zip(comms, halves, strict=True)])
        assert all(list(one[4:]) == [0, 2, 4, 6] for one in halves)
    assert [kept(comm) for comm in comms] == [1, 1]     # halves do not meet, the others do


def test_operations_of_the_program_have_none(pair):
    """Python computes with views of the buffers."""
    w, comms = pair

    def add(a, b, datatype):
        out = np.frombuffer(b)
        out += np.frombuffer(a)

    op = Op.Create(add)
    for turn in range(3):
        rooms = [np.zeros(3) for _ in range(2)]
        w.run(*[comm.Iallreduce(np.full(3, float(turn)), room, op)
                for comm, room in zip(comms, rooms, strict=True)])
        assert all((room == 2 * turn).all() for room in rooms)
    assert [kept(comm) for comm in comms] == [0, 0]


def test_what_failed_is_not_kept(pair):
    w, comms = pair
    requests = [comms[0].Iallreduce(np.ones(3), np.zeros(3)),
                comms[1].Iallreduce(np.ones(5), np.zeros(5))]
    for request in requests:
        with pytest.raises(Exception, match="block|fit"):
            w.run(request)
    assert [kept(comm) for comm in comms] == [0, 0]
    go_on(w, random.Random(1), comms)


def test_a_shelf_is_bounded(pair):
    """By shapes, and by the scratch memory that waits there."""
    w, comms = pair
    for count in range(1, 150):
        allreduce(w, comms, [np.ones(count), np.ones(count)])
        assert kept(comms[0]) <= 64
    for count in (1 << 20, (1 << 20) + 1, (1 << 20) + 2):
        allreduce(w, comms, [np.ones(count, np.int64), np.ones(count, np.int64)])
        held = sum(array.nbytes for array in scratch_on(comms[0]))
        assert held <= 16 << 20


def scratch_on(comm):
    """What the collector knows of arrays that a shelf holds."""
    todo, found = [comm.identity.shelf], []
    while todo:
        one = todo.pop()
        if isinstance(one, np.ndarray):
            found.append(one)
        elif isinstance(one, (dict, list, tuple)) or type(one).__name__ in ("Shelf", "Plan"):
            todo += gc.get_referents(one)
    return found


def test_blocking_calls_have_theirs():
    """They wait, so they are made where one rank is enough; the kinds do not share."""
    with KINDS["sim"](1, seed=1) as w:
        comm, = comms_of(w)
        for turn in range(5):
            room = np.zeros(4)
            comm.Allreduce(np.full(4, float(turn)), room)
            assert (room == turn).all()
            comm.Iallreduce(np.full(4, turn + 1.0), room).Wait()
            assert (room == turn + 1).all()
        assert kept(comm) == 2
