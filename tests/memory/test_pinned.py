"""Memory that somebody asked to be registered."""

import gc
import mmap

import numpy as np
import pytest

from pyrdv.api.pinned import Pinned
from pyrdv.errors import FinalizedError, InvalidBufferError

N = 100_000


def test_a_bytearray_is_found_while_it_is_pinned(pair):
    world = pair()
    data = bytearray(range(256)) * 400
    with Pinned(world.engines[0], data) as handle:
        assert handle.nbytes == len(data) and str(len(data)) in repr(handle)
        world.send(data)
        world.send(memoryview(data)[500:50_000])
        world.send(np.frombuffer(data, np.uint8)[1:])
        assert world.count()["hits"] == 3
        with pytest.raises(BufferError):
            data.append(1)
    data.append(1)
    assert world.count()["pool_bytes"] == 0
    assert repr(handle).endswith("released>")
    world.send(data)
    assert world.count()["hits"] == 3
    handle.release()


def test_it_can_be_received_into(pair):
    world = pair()
    data = bytearray(N)
    with Pinned(world.engines[0], data):
        world.settle(world.comms[0].Irecv(data, 1),
                     world.comms[1].Isend(np.full(N, 4, np.uint8), 0))
        assert world.count()["hits"] == world.sinks and set(data) == {4}


def test_an_array_stays_whatever_else_is_registered(pair):
    world = pair(entries_max=2)
    data = np.full(N, 1, np.uint8)
    handle = Pinned(world.engines[0], data)
    for number in range(5):
        world.send(np.full(N, number, np.uint8))
    hits = world.count()["hits"]
    world.send(data)
    assert world.count()["hits"] == hits + 1
    handle.release()
    for number in range(5):
        world.send(np.full(N, number, np.uint8))


def test_what_is_larger_than_the_cache(pair):
    """Who asks for it gets it."""
    world = pair(bytes_max=N)
    data = np.full(3 * N, 1, np.uint8)
    with Pinned(world.engines[0], data):
        world.send(data)
        assert world.count()["hits"] == 1


def test_read_only_memory_is_registered_for_sending(pair):
    world = pair()
    data = bytes(range(256)) * 400
    with Pinned(world.engines[0], data):
        world.send(data)
        assert world.count()["hits"] == 1


def test_a_mapping_cannot_be_closed_meanwhile(pair):
    world = pair()
    data = mmap.mmap(-1, N)
    with Pinned(world.engines[0], data):
        with pytest.raises(BufferError):
            data.close()
        world.send(data)
    data.close()


def test_it_keeps_the_memory_alive(pair):
    world = pair()
    handle = Pinned(world.engines[0], np.full(N, 1, np.uint8))
    gc.collect()
    assert world.count()["owners"] == 1
    del handle
    assert world.count()["owners"] == 0


def test_nothing_to_register(pair):
    world = pair()
    with Pinned(world.engines[0], b""):
        pass
    with pytest.raises(InvalidBufferError):
        Pinned(world.engines[0], np.zeros((10, 10))[:, 1])
    assert world.count()["pool_bytes"] == 0


def test_no_room(sim):
    world = sim(lockable=N)
    with pytest.raises(MemoryError, match="could not be registered"):
        Pinned(world.engines[0], bytearray(2 * N))
    with pytest.raises(MemoryError):
        Pinned(world.engines[0], np.empty(2 * N, np.uint8))
    with Pinned(world.engines[0], bytearray(N)):
        pass


def test_after_the_end(pair):
    world = pair()
    handle = Pinned(world.engines[0], bytearray(N))
    world.engines[0].close()
    handle.release()
    with pytest.raises(FinalizedError):
        Pinned(world.engines[0], bytearray(N))
