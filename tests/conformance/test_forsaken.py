"""A receive that nobody wants any more: its buffer is left alone, and its sender is let go."""

import pytest

from pyrdv.instruments.engine import Driver

from .worlds import pattern

SIZE = 3_000_000
#: Turns that are enough where one moves 1000 bytes.
LIMIT = 10_000
#: Worlds in which a READ under way can be left: their receivers copy by themselves.
LEAVES = ("sim", "shm-staged", "shm-cached", "chaos-off")


def forsaken_after(world, steps, first):
    """Forsake a large receive `steps` steps after both sides have called; whether it was left.

    A receive that is left, or complete, is never written to again; the send ends in order, and so
    does a later message.
    """
    with world(2, seed=steps) as w:
        sender, receiver = (Driver(engine) for engine in w.engines)
        data, room = pattern(SIZE, 1), bytearray(SIZE)
        later, after = pattern(200_000, 2), bytearray(200_000)
        if first == "receive":
            received = receiver.receive(0, 3, room)
            w.settle()
        sent = sender.send(1, 3, data)
        if first == "send":
            w.settle()
            received = receiver.receive(0, 3, room)
        for _step in range(steps):
            w.step()
        ended = received.ended()
        left = not ended and received.forsake()
        if not left:
            w.until(received.ended, LIMIT)
            assert received.result[0] == 0 and room == data.tobytes()
        room[:] = bytes([7]) * SIZE
        more = [sender.send(1, 4, later), receiver.receive(0, 4, after)]
        w.until(lambda: all(one.ended() for one in (sent, received, *more)), LIMIT)
        assert sent.result[0] == 0 and after == later.tobytes()
        assert room == bytes([7]) * SIZE
        for one in (sent, received, *more):
            one.release()
        return left


@pytest.mark.parametrize("first", ["send", "receive"])
def test_nothing_lands_in_a_receive_that_was_left(world, first):
    left = [forsaken_after(world, steps, first) for steps in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)]
    if first == "send" and (world.kind in LEAVES or world.protocol == "pipeline"):
        assert any(left)
