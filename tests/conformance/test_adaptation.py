"""Offers that nobody uses are stopped, and tried again (A1, A2; G1, G3, G4)."""

import numpy as np
import pytest

from .test_speculation import LARGE, check, counted, receive
from .worlds import MPI, pattern


def ready(world, **engine):
    """Two ranks that are connected."""
    w = world(2, **engine)
    for a, b in ((0, 1), (1, 0)):
        w.run(w.comms[a].Isend(pattern(8), dest=b),
              w.comms[b].Irecv(np.zeros(8, np.uint8), source=a))
    w.settle()
    return w


def message(w, size, tag=3):
    """A large receive comes first, then a message of `size`."""
    room, request = receive(w, LARGE, tag)
    w.run(w.comms[0].Isend(pattern(size), dest=1, tag=tag), request)
    check(room, size)


def too_long(w, tag=3):
    """The same with a message that does not fit the receive, so that its RTR is not used."""
    room, request = receive(w, LARGE, tag)
    send = w.comms[0].Isend(pattern(LARGE + 1), dest=1, tag=tag)
    with pytest.raises(MPI.Exception):
        w.run(request)
    w.run(send)
    check(room, LARGE)


def sent(w):
    return counted(w, "rtrs_sent")


def test_unused_offers_stop_and_used_trials_resume(world):
    with ready(world) as w:
        if not w.offers:
            message(w, LARGE)
            assert sent(w) == counted(w, "rtrs_withheld") == 0
            return
        if w.speculation == "indexed":
            regret(w)
            return
        for _ in range(9):
            too_long(w)
        # Eight were judged, so the ninth message told; its own RTR was the last.
        assert (sent(w), counted(w, "stops_sent")) == (9, 1)
        for _ in range(15):
            message(w, LARGE)
        assert (sent(w), counted(w, "rtrs_withheld"), counted(w, "rtrs_used")) == (9, 15, 0)
        message(w, LARGE)               # a trial
        assert (sent(w), counted(w, "rtrs_used"), counted(w, "resumes_sent")) == (10, 1, 0)
        for _ in range(16):
            message(w, LARGE)           # and a second one
        assert (sent(w), counted(w, "rtrs_used")) == (11, 2)
        message(w, LARGE)               # tells RESUME
        assert counted(w, "resumes_sent") == 1
        for _ in range(20):
            message(w, LARGE)
        assert (sent(w), counted(w, "rtrs_used")) == (31, 22)


def regret(w):
    """Small messages are worth no offer; three show that, and one used trial the contrary."""
    for _ in range(4):
        message(w, 10)
    assert (sent(w), counted(w, "rtrs_withheld")) == (3, 1)
    for _ in range(14):
        message(w, LARGE)
    assert (sent(w), counted(w, "rtrs_withheld"), counted(w, "rtrs_used")) == (3, 15, 0)
    message(w, LARGE)                   # a trial
    assert (sent(w), counted(w, "rtrs_used")) == (4, 1)
    for _ in range(20):
        message(w, LARGE)
    assert (sent(w), counted(w, "rtrs_used")) == (24, 21)
    assert counted(w, "stops_sent") == counted(w, "resumes_sent") == 0


def test_other_envelopes_go_on(world):
    with ready(world) as w:
        for _ in range(12):
            too_long(w, tag=3)
        before = sent(w)
        message(w, LARGE, tag=4)
        assert sent(w) - before == (w.offers)


def test_a_threshold_of_zero_never_stops(world):
    with ready(world, adapt=0) as w:
        for _ in range(30):
            too_long(w)
        assert sent(w) == (0 if not w.offers else 30)
        assert counted(w, "stops_sent") == 0


@pytest.mark.parametrize("unused, stopped", [(1, False), (2, True)])
def test_the_threshold(world, unused, stopped):
    """80 %: seven of eight are enough, six are not; as published."""
    with ready(world) as w:
        for number in range(8):
            too_long(w) if number < unused else message(w, LARGE)
        message(w, LARGE)
        assert counted(w, "stops_sent") == (stopped and w.speculation == "classic")


def test_more_envelopes_than_records(world):
    """A1: a record that is lost costs nothing but an RTR."""
    with ready(world) as w:
        for tag in range(400):
            room, request = receive(w, LARGE, tag)
            w.run(w.comms[0].Isend(pattern(10), dest=1, tag=tag), request)
            check(room, 10)
