"""A message longer than its receive: an error with both sizes; others are unharmed (R6)."""

import numpy as np
import pytest

from pyrdv import errors

from .worlds import MPI, pattern

CASES = [(500, 104), (1, 0), (5000, 4999), (200_000, 104), (200_000, 0), (1 << 20, (1 << 20) - 1)]


@pytest.mark.parametrize("first", ["send", "receive"])
@pytest.mark.parametrize("size, room_size", CASES)
def test_truncated(world, size, room_size, first):
    """R5, case M12: nothing is written beyond the buffer, and the text names both sizes."""
    with world(2) as w:
        a, b = w.comms
        room = np.full(room_size + 4096, 0x77, np.uint8)
        after = np.zeros(300_000, np.uint8)
        data = pattern(size, 1)
        later = pattern(300_000, 2)

        def send():
            return [a.Isend(data, dest=1, tag=9), a.Isend(later, dest=1, tag=9)]

        def receive():
            return [b.Irecv(room[:room_size], source=0, tag=9),
                    b.Irecv(after, source=0, tag=9)]

        if first == "send":
            sends = send()
            w.settle()
            receives = receive()
        else:
            receives = receive()
            w.settle()
            sends = send()
        with pytest.raises(errors.TruncationError) as caught:
            w.run(receives[0])
        for number in (size, room_size):
            assert str(number) in str(caught.value)
        assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
        w.run(*sends, receives[1])
        assert (room[room_size:] == 0x77).all()
        head = room[:room_size]
        assert np.array_equal(head, data[:room_size]) or (head == 0x77).all()
        assert np.array_equal(after, later)


def test_shorter_is_fine(world):
    """R6: a receive larger than the message says how much came."""
    with world(2) as w:
        for size in (0, 10, 5000, 200_000):
            room = np.full(size + 1000, 0x77, np.uint8)
            r = w.comms[1].Irecv(room, source=0)
            s = w.comms[0].Isend(pattern(size), dest=1)
            status = MPI.Status()
            w.until(lambda r=r, status=status: r.Test(status))
            w.run(s)
            assert status.Get_count(MPI.BYTE) == size
            assert (room[size:] == 0x77).all()
