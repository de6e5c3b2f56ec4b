"""Python objects as messages, by the non-blocking calls (M08, M16, M18)."""

import numpy as np
import pytest

from .worlds import MPI


def receive(w, request):
    """The object of a receive."""
    done = w.until(lambda: (result := request.test())[0] and [result[1]])
    return done[0]


def test_completed_out_of_order(world):
    """Case M08: two large objects under one tag, the later request finished first."""
    with world(2, seed=1) as w:
        objects = [{"n": n, "data": np.full(1 << 17, n), "text": "x" * 1000} for n in range(2)]
        sends = [w.comms[0].isend(each, dest=1, tag=3) for each in objects]
        requests = [w.comms[1].irecv(source=0, tag=3) for _ in range(2)]
        for n in (1, 0):
            got = receive(w, requests[n])
            assert got["n"] == n
            assert np.array_equal(got["data"], objects[n]["data"])
        w.run(*sends)


@pytest.mark.parametrize("size", [0, 10, 40_000, 100_000, 10_000_000])
@pytest.mark.parametrize("first", ["send", "receive"])
def test_sizes_are_not_guessed(world, size, first):
    """Case M18: an object of any size arrives without a hint."""
    thing = {"bytes": b"z" * size, "list": list(range(min(size, 1000)))}
    with world(2) as w:
        if first == "send":
            s = w.comms[0].isend(thing, dest=1, tag=1)
            w.settle()
            r = w.comms[1].irecv(source=0, tag=1)
        else:
            r = w.comms[1].irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            w.settle()
            s = w.comms[0].isend(thing, dest=1, tag=1)
        assert receive(w, r) == thing
        w.run(s)


def test_synchronous_object_with_parts(world):
    """Case M16: an object of several parts against a matched probe."""
    with world(2) as w:
        thing = [np.full(100_000, n) for n in range(3)]
        s = w.comms[0].issend(thing, dest=1, tag=1)
        message = w.until(lambda: w.comms[1].improbe(source=0, tag=1))
        w.settle()
        got = receive(w, message.irecv())
        w.run(s)
        assert all(np.array_equal(a, b) for a, b in zip(got, thing, strict=True))


def test_objects_and_buffers_keep_one_order(world):
    """R4: objects are messages like others."""
    with world(2, seed=2) as w:
        sends = []
        for i in range(10):
            sends.append(w.comms[0].isend(("object", i, b"p" * (i % 2) * 200_000), dest=1, tag=1))
            sends.append(w.comms[0].Isend(np.full(8, i, np.uint8), dest=1, tag=1))
        for i in range(10):
            assert receive(w, w.comms[1].irecv(source=0, tag=1))[1] == i
            room = np.zeros(8, np.uint8)
            w.run(w.comms[1].Irecv(room, source=0, tag=1))
            assert (room == i).all()
        w.run(*sends)


def test_object_to_self(world):
    """Case M13: objects to oneself."""
    with world(1) as w:
        for size in (1, 300_000):
            s = w.comms[0].isend(b"q" * size, dest=0)
            assert receive(w, w.comms[0].irecv(source=0)) == b"q" * size
            w.run(s)


def test_dropped_after_the_match_its_parts_are_still_taken(world):
    """R6, R10: the sender of an object is not left waiting when the receive is forgotten."""
    with world(2) as w:
        obj = {"big": np.arange(3_000_000), "small": np.arange(40_000)}
        send = w.comms[0].isend(obj, dest=1, tag=4)
        receive = w.comms[1].irecv(source=0, tag=4)
        for _ in range(100_000):
            w.step()
            receive.Test()
            if w.engines[1].matched:
                break
        else:
            raise AssertionError("the object was never half received")
        del receive
        for _ in range(100_000):
            w.step()
            w.comms[1].Iprobe(source=0, tag=99)
            if send.Test():
                break
        else:
            raise AssertionError("the sender waits for ever")
        assert not w.engines[1].matched


def test_parts_offer_no_buffer(world):
    """Their sends are announced right behind the head, so their RTRs would be stale."""
    with world(2) as w:
        for _ in range(5):
            request = w.comms[1].irecv(source=0)
            send = w.comms[0].isend(np.ones(1 << 18), dest=1)
            assert receive(w, request).sum() == 1 << 18
            w.run(send)
        assert sum(engine.counters()["rtrs_sent"] for engine in w.engines) == 0
