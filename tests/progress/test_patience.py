"""How long a waiter polls before it sleeps (R7)."""

import time

import pytest

from pyrdv.progress.polling import wait_until
from tests.conformance.worlds import KINDS

YIELD = 2.0     # seconds


@pytest.mark.parametrize(("what", "sleeps"), [("nothing", 1), ("packet", 0), ("pipeline", 0)])
def test_what_is_under_way_prolongs_the_yielding(what, sleeps):
    """A waiter sleeps `YIELD` seconds after the last event, not after its first look, for more may
    follow; and later while it has a lane in use."""
    with KINDS["sim"](2, protocol="pipeline", spin_ns=0, yield_ns=int(YIELD * 1e9)) as w:
        w.run(w.comms[1].Isend(bytearray(8), dest=0), w.comms[0].Irecv(bytearray(8), source=1))
        requests, slept, start = [], [], time.monotonic()
        w.engines[0].notice = lambda: slept.append(True)
        if what == "pipeline":
            requests.append(w.comms[0].Isend(bytearray(100_000), dest=1))

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
            w.run(w.comms[what == "pipeline"].Irecv(bytearray(100_000)))
        w.run(*requests)
