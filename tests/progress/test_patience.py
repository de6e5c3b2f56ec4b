"""How long a waiter polls before it sleeps (R7)."""

import threading
import time

import pytest

from pyrdv.progress.pausing import patience
from pyrdv.progress.waiting import wait_until
from tests.conformance.worlds import KINDS

YIELD = 2.0     # seconds


@pytest.mark.parametrize(("what", "sleeps"), [("nothing", 1), ("packet", 0)])
def test_what_happens_prolongs_the_yielding(what, sleeps):
    """A waiter sleeps `YIELD` seconds after the last event, not after its first look, for more may
    follow."""
    with KINDS["sim"](2, spin_ns=0, yield_ns=int(YIELD * 1e9)) as w:
        w.run(w.comms[1].Isend(bytearray(8), dest=0), w.comms[0].Irecv(bytearray(8), source=1))
        requests, slept, start = [], [], time.monotonic()
        w.engines[0].notice = lambda: slept.append(True)

        def until(share):
            while time.monotonic() < start + share * YIELD:
                pass

        def looks():
            yield False
            until(0.6)
            if what == "packet":
                requests.append(w.comms[1].Isend(bytearray(8), dest=0))
                while not w.engines[0].counters()["unexpected"]:
                    yield False
            until(1.1)
            yield False
            yield True

        wait_until(w.engines[0], looks().__next__)
        assert len(slept) == sleeps
        for _ in requests:
            w.run(w.comms[0].Irecv(bytearray(8)))
        w.run(*requests)


def test_who_slept_too_soon_yields_longer():
    """What came soon after a waiter fell asleep would have been worth waiting for."""
    # It came 1.5 times the time after the last event: twice the time would have been enough.
    assert [patience(longer, 100, 150 << longer, True) for longer in range(4)] == [1, 2, 3, 3]
    # Nothing came in such a time, or it came much later: no reason to yield longer.
    assert [patience(longer, 100, 150 << longer, False) for longer in range(4)] == [0, 1, 2, 3]
    assert [patience(longer, 100, 250 << longer, True) for longer in range(3)] == [0, 1, 2]
    # Long waits take it back, step by step.
    assert [patience(longer, 100, 1601, came) for longer in range(4) for came in (True, False)] \
        == [0, 0, 0, 0, 1, 1, 2, 2]


def test_a_waiter_learns():
    """An event that comes later than it yields puts it to sleep at first, and soon no more."""
    with KINDS["shm"](2, spin_ns=0, yield_ns=int(YIELD / 2 * 1e9)) as w:
        w.run(w.comms[1].Isend(bytearray(8), dest=0), w.comms[0].Irecv(bytearray(8), source=1))
        slept = []
        w.engines[0].notice = lambda: slept.append(True)

        def sleeps():
            slept.clear()
            later = threading.Timer(0.675 * YIELD, w.comms[1].Send, (bytearray(8), 0))
            later.start()
            assert wait_until(w.engines[0], lambda: w.engines[0].counters()["unexpected_now"], 30)
            later.join()
            w.run(w.comms[0].Irecv(bytearray(8)))
            return bool(slept)

        assert sleeps()
        # What came between two slices of a sleep teaches nothing.
        assert not all(sleeps() for _ in range(4))
