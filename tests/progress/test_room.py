"""Who waits for a large message has pages made for it meanwhile."""

import threading
import time

import numpy as np
import pytest

from pyrdv.tools import fresh
from tests.conformance.worlds import KINDS, pattern

SIZE = 1 << 20


def receive(w, room, ready):
    """Receive into `room`, which the sender sends to once ``ready()`` holds; whether it did."""
    seen = []

    def send():
        deadline = time.monotonic() + 30
        while not (held := ready()) and time.monotonic() < deadline:
            time.sleep(0.001)
        seen.append(held)
        w.comms[1].Send(pattern(SIZE), dest=0)

    sender = threading.Thread(target=send)
    sender.start()
    w.comms[0].Recv(room, source=1)
    sender.join()
    return seen[0]


@pytest.mark.parametrize("spin_ns", [0, 100_000])
def test_pages_are_made_while_it_waits(spin_ns):
    with KINDS["shm"](2, spin_ns=spin_ns) as w:
        room = fresh.empty(SIZE)
        whole = fresh.whole_pages(room)[1]
        assert receive(w, room, lambda: fresh.pages(room) == whole)
        assert np.array_equal(room, pattern(SIZE))


def test_a_room_that_is_far_too_large():
    """How long the message is nobody knows: a part is made, not gigabytes."""
    with KINDS["shm"](2, spin_ns=0) as w:
        room = fresh.empty(64 << 20)
        begun = time.monotonic()
        assert receive(w, room, lambda: (fresh.pages(room) >= SIZE // fresh.PAGE
                                         and time.monotonic() > begun + 0.3))
        assert fresh.pages(room) < (16 << 20) // fresh.PAGE


def test_contents_stay(tmp_path):
    """What is there is not touched: not beyond a shorter message, and not in a file's copy."""
    file = tmp_path / "contents"
    file.write_bytes(pattern(2 * SIZE, 5).tobytes())
    for room in (pattern(2 * SIZE, 5), np.memmap(file, np.uint8, "c")):
        with KINDS["shm"](2, spin_ns=0) as w:
            begun = time.monotonic()
            assert receive(w, room, lambda begun=begun: time.monotonic() > begun + 0.2)
            assert np.array_equal(room[:SIZE], pattern(SIZE))
            assert np.array_equal(room[SIZE:], pattern(2 * SIZE, 5)[SIZE:])
    assert file.read_bytes() == pattern(2 * SIZE, 5).tobytes()
