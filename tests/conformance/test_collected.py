"""A world that only the garbage collector ends: nothing that the kernel counts stays behind."""

import gc
import os

import pytest

from .worlds import pattern


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def leave(world):
    """Make a world, exchange, and leave all of it in a cycle with a failed receive."""
    with world(2, seed=1) as w:
        sent = w.comms[0].Isend(pattern(500), dest=1)
        received = w.comms[1].Irecv(bytearray(104), source=0)
        with pytest.raises(Exception, match="104") as caught:
            w.run(received)
        w.run(sent)
    cycle = [w, caught]
    cycle.append(cycle)


def test_descriptors_are_given_back(world):
    leave(world)                    # what a first world opens for good
    before = descriptors()
    for _ in range(3):
        leave(world)
    assert descriptors() <= before
