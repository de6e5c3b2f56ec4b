"""When requests complete, and that nothing happens to the buffer afterwards (R3)."""

import numpy as np
import pytest

from .worlds import MPI, pattern

SIZES = [0, 8, 3000, 5000, 300_000]


@pytest.mark.parametrize("size", SIZES)
def test_synchronous_send_waits_for_the_match(world, size):
    """MPI: Issend completes only after a matching receive has begun."""
    with world(2) as w:
        s = w.comms[0].Issend(pattern(size), dest=1, tag=1)
        other = np.zeros(1, np.uint8)
        r = w.comms[1].Irecv(other, source=0, tag=2)
        for _ in range(20):
            w.settle(1)
            assert not s.Test()
        room = np.zeros(size, np.uint8)
        w.run(s, w.comms[1].Irecv(room, source=0, tag=1))
        assert np.array_equal(room, pattern(size))
        r.Cancel()
        w.run(r)


@pytest.mark.parametrize("size", SIZES)
def test_send_buffer_is_free_after_completion(world, size):
    """R3: whatever the sender does to its buffer later does not show."""
    with world(2, seed=size) as w:
        data = pattern(size, 1)
        s = w.comms[0].Isend(data, dest=1)
        room = np.zeros(size, np.uint8)
        r = w.comms[1].Irecv(room, source=0)
        w.run(s)
        data[:] = 0xFF
        w.run(r)
        assert np.array_equal(room, pattern(size, 1))


def test_receive_buffer_is_left_alone_after_completion(world):
    """R3: poisoned rooms stay poisoned while traffic on the same envelope goes on."""
    with world(2, seed=5) as w:
        poisoned = []
        for round_ in range(40):
            size = SIZES[round_ % len(SIZES)]
            room = np.zeros(size, np.uint8)
            r = w.comms[1].Irecv(room, source=0, tag=1)
            s = w.comms[0].Isend(pattern(size, round_), dest=1, tag=1)
            w.run(r)
            assert np.array_equal(room, pattern(size, round_))
            room[:] = 0x5A
            poisoned.append(room)
            w.run(s)
            assert all((old == 0x5A).all() for old in poisoned)
        w.settle()
        assert all((old == 0x5A).all() for old in poisoned)


def test_completed_request_becomes_null(world):
    """R3: a request completes once; afterwards it is MPI's null request."""
    with world(2) as w:
        room = np.zeros(8, np.uint8)
        r = w.comms[1].Irecv(room, source=0)
        w.run(w.comms[0].Isend(pattern(8), dest=1), r)
        assert r == MPI.REQUEST_NULL
        assert r.Test()


def test_cancelled_receive(world):
    """R6: a cancelled receive takes nothing; the message goes to the next one."""
    with world(2) as w:
        first = np.zeros(4, np.uint8)
        second = np.zeros(4, np.uint8)
        r1 = w.comms[1].Irecv(first, source=0, tag=1)
        r2 = w.comms[1].Irecv(second, source=0, tag=1)
        r1.Cancel()
        status = MPI.Status()
        w.until(lambda: r1.Test(status))
        assert status.Is_cancelled()
        w.run(w.comms[0].Isend(pattern(4), dest=1, tag=1), r2)
        assert not first.any()
        assert np.array_equal(second, pattern(4))


@pytest.mark.parametrize("size", SIZES)
def test_cancel_after_the_match_has_no_effect(world, size):
    """R3: a receive that was matched completes as if it had not been cancelled."""
    with world(2) as w:
        room = np.zeros(size, np.uint8)
        s = w.comms[0].Isend(pattern(size), dest=1)
        w.settle()
        r = w.comms[1].Irecv(room, source=0)
        r.Cancel()
        status = MPI.Status()
        w.until(lambda: r.Test(status))
        assert not status.Is_cancelled()
        assert status.Get_count(MPI.BYTE) == size
        assert np.array_equal(room, pattern(size))
        w.run(s)


def test_cancel_wildcards_among_many(world):
    """R6: every second of a mixture of receives is cancelled."""
    with world(2, seed=6) as w:
        rooms = np.full(40, -1, np.int64)
        receives = []
        for i in range(40):
            source = MPI.ANY_SOURCE if i % 4 == 0 else 0
            tag = MPI.ANY_TAG if i % 8 < 4 else 7
            receives.append(w.comms[1].Irecv(rooms[i:i + 1], source=source, tag=tag))
        for r in receives[::2]:
            r.Cancel()
        data = np.arange(20, dtype=np.int64)
        w.run(*(w.comms[0].Isend(data[i:i + 1], dest=1, tag=7) for i in range(20)), *receives)
        assert (rooms[::2] == -1).all()
        assert np.array_equal(rooms[1::2], data)


def test_process_null(world):
    """MPI: PROC_NULL takes and gives nothing, at once."""
    with world(2) as w:
        room = np.full(4, 9, np.uint8)
        status = MPI.Status()
        assert w.comms[0].Isend(room, dest=MPI.PROC_NULL, tag=1).Test()
        assert w.comms[0].Issend(room, dest=MPI.PROC_NULL, tag=1).Test()
        assert w.comms[0].Irecv(room, source=MPI.PROC_NULL, tag=1).Test(status)
        assert (status.Get_source(), status.Get_tag()) == (MPI.PROC_NULL, MPI.ANY_TAG)
        assert status.Get_count(MPI.BYTE) == 0
        assert (room == 9).all()
        assert w.comms[0].Iprobe(source=MPI.PROC_NULL)


def test_dropped_requests_still_arrive(world):
    """Case R10: a request thrown away before it completes keeps its buffer alive."""
    with world(2, seed=7) as w:
        for i in range(50):
            w.comms[0].Isend(pattern(100_000 if i % 2 else 50, i), dest=1)
        for i in range(50):
            size = 100_000 if i % 2 else 50
            room = np.zeros(size, np.uint8)
            w.run(w.comms[1].Irecv(room, source=0))
            assert np.array_equal(room, pattern(size, i))
