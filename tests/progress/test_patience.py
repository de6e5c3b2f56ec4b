"""How long a waiter polls before it sleeps (R7)."""

import time

import pytest

from pyrdv.progress.polling import wait_until
from tests.conformance.worlds import KINDS

YIELD = 2.0


@pytest.mark.parametrize("event", [True, False])
def test_what_happens_prolongs_the_yielding(event):
    """Patience ends `YIELD` seconds after the last event, not after the first look: more may follow
    what has just come."""
    with KINDS["sim"](2, spin_ns=0, yield_ns=int(YIELD * 1e9)) as w:
        w.run(w.comms[1].Isend(bytearray(8), dest=0), w.comms[0].Irecv(bytearray(8), source=1))
        slept, start = [], time.monotonic()
        w.engines[0].notice = lambda: slept.append(True)

        def until(share):
            while time.monotonic() < start + share * YIELD:
                pass

        def looks():
            yield False
            until(0.6)
            if event:
                w.comms[1].Isend(bytearray(8), dest=0)
            while w.engines[0].counters()["unexpected"] < int(event):
                yield False
            until(1.1)
            yield False
            yield True

        wait_until(w.engines[0], looks().__next__)
        if event:
            w.run(w.comms[0].Irecv(bytearray(8), source=1))
        assert len(slept) == (0 if event else 1)
