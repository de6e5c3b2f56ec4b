"""Non-overtaking: messages of one sender match in the order of the send calls (R4)."""

import numpy as np
import pytest

from .worlds import MPI, pattern

SIZES = [8, 200_000, 0, 3000, 5000, 1, 70_000, 64, 1 << 20, 17]


@pytest.mark.parametrize("first", ["sends", "receives", "mixed"])
def test_mixed_sizes_one_tag(world, first):
    """R4: an eager message never passes the rendezvous before it."""
    with world(2, seed=1) as w:
        sizes = SIZES * 3
        data = [pattern(size, i) for i, size in enumerate(sizes)]
        rooms = [np.zeros(1 << 20, np.uint8) for _ in sizes]
        sends, receives = [], []
        steps = {"sends": "s" * 30 + "r" * 30, "receives": "r" * 30 + "s" * 30,
                 "mixed": "srrssrrsrsss" * 2 + "sr" * 40}[first]
        for step in steps:
            if step == "s" and len(sends) < len(sizes):
                sends.append(w.comms[0].Isend(data[len(sends)], dest=1, tag=3))
            elif step == "r" and len(receives) < len(sizes):
                receives.append(w.comms[1].Irecv(rooms[len(receives)], source=0, tag=3))
            w.step()
        assert len(sends) == len(receives) == len(sizes)
        w.run(*sends, *receives)
        for size, room, sent in zip(sizes, rooms, data, strict=True):
            assert np.array_equal(room[:size], sent)
            assert not room[size:].any()


def test_wildcard_receives_see_the_order_of_calls(world):
    """R4: with ANY_TAG the order over all tags shows."""
    with world(2, seed=2) as w:
        sizes = SIZES * 4
        data = [pattern(size, i) for i, size in enumerate(sizes)]
        sends = [w.comms[0].Isend(d, dest=1, tag=i) for i, d in enumerate(data)]
        rooms = [np.zeros(1 << 20, np.uint8) for _ in sizes]
        for i, room in enumerate(rooms):
            status = MPI.Status()
            r = w.comms[1].Irecv(room, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            w.until(lambda r=r, status=status: r.Test(status))
            assert (status.Get_source(), status.Get_tag()) == (0, i)
            assert status.Get_count(MPI.BYTE) == sizes[i]
            assert np.array_equal(room[:sizes[i]], data[i])
        w.run(*sends)


def test_ten_thousand_in_reverse(world):
    """R6: 10 000 sends are outstanding, received in the reverse order of their tags."""
    count = 10_000
    with world(2, seed=3) as w:
        sends = []
        data = np.arange(count, dtype=np.int64)
        for tag in range(count):
            sends.append(w.comms[0].Isend(data[tag:tag + 1], dest=1, tag=tag))
            if tag % 100 == 0:
                w.step()
        got = np.full(count, -1, np.int64)
        receives = [w.comms[1].Irecv(got[tag:tag + 1], source=0, tag=tag)
                    for tag in reversed(range(count))]
        w.run(*sends, *receives)
        assert np.array_equal(got, data)


def test_ten_thousand_posted_in_reverse(world):
    """R6: the same with the receives first."""
    count = 10_000
    with world(2, seed=4) as w:
        got = np.full(count, -1, np.int64)
        data = np.arange(count, dtype=np.int64)
        receives = [w.comms[1].Irecv(got[tag:tag + 1], source=0, tag=tag)
                    for tag in reversed(range(count))]
        sends = [w.comms[0].Isend(data[tag:tag + 1], dest=1, tag=tag) for tag in range(count)]
        w.run(*sends, *receives)
        assert np.array_equal(got, data)
