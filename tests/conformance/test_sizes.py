"""Every size arrives whole, whoever comes first."""

import numpy as np
import pytest

from .worlds import pattern

SMALL = [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 79, 80, 81, 119, 120, 121, 127, 128, 129]
EDGES = [limit + off for limit in (1024, 2048, 4096, 8192, 16384, 32768, 65536)
         for off in (-64, -56, -41, -40, -39, -1, 0, 1)]
LARGE = [(1 << 20) - 1, 1 << 20, (1 << 20) + 1]


def transfer(w, size, order, tag=5, sync=False):
    """One message from rank 0 to rank 1, posted in the given order; returns the status."""
    a, b = w.comms
    data = pattern(size, seed=size)
    room = np.full(size + 16, 0xEE, np.uint8)
    send = a.Issend if sync else a.Isend
    if order == "receive first":
        r = b.Irecv(room[:size], source=0, tag=tag)
        w.settle(1)
        s = send(data, dest=1, tag=tag)
    elif order == "send first":
        s = send(data, dest=1, tag=tag)
        w.settle(1)
        r = b.Irecv(room[:size], source=0, tag=tag)
    else:
        s = send(data, dest=1, tag=tag)
        r = b.Irecv(room[:size], source=0, tag=tag)
    w.run(r, s)
    assert np.array_equal(room[:size], data)
    assert (room[size:] == 0xEE).all()
    assert np.array_equal(data, pattern(size, seed=size))


ORDERS = ["receive first", "send first", "interleaved"]


@pytest.mark.parametrize("order", ORDERS)
def test_small_and_edges(world, order):
    """R6: sizes around the inline, packet and eager limits of every fabric."""
    with world(2) as w:
        for size in SMALL + EDGES:
            transfer(w, size, order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eager_max", [1, 100, 3000])
def test_edges_of_a_chosen_eager_limit(world, order, eager_max):
    """R4: the same around a limit that is set rather than the fabric's."""
    with world(2, eager_max=eager_max) as w:
        for size in (0, 1, 2, *range(eager_max - 2, eager_max + 3), 3 * eager_max):
            transfer(w, max(size, 0), order)


@pytest.mark.parametrize("order", ORDERS)
def test_large(world, order):
    """R5, R6: rendezvous around 1 MiB."""
    with world(2) as w:
        for size in LARGE:
            transfer(w, size, order)


def test_twenty_mebibytes(world):
    """R5, R6: many pieces in both directions at once."""
    size = 20 << 20
    with world(2) as w:
        rooms = [np.zeros(size, np.uint8) for _ in range(2)]
        data = [pattern(size, seed) for seed in range(2)]
        requests = [w.comms[i].Irecv(rooms[i], source=1 - i) for i in range(2)]
        requests += [w.comms[i].Isend(data[i], dest=1 - i) for i in range(2)]
        w.run(*requests)
        assert np.array_equal(rooms[0], data[1])
        assert np.array_equal(rooms[1], data[0])


@pytest.mark.parametrize("order", ORDERS)
def test_synchronous_sizes(world, order):
    """R4: synchronous sends of every protocol."""
    with world(2) as w:
        for size in (0, 1, 80, 4000, 4097, 70_000, 300_000):
            transfer(w, size, order, sync=True)


def test_alignments_and_guards(world):
    """R5, case B05: any alignment of either side; the bytes around stay as they were."""
    primes = [131, 257, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521, 70001]
    with world(2, seed=4) as w:
        for size in [*range(0, 131), *primes]:
            at, to = w.rng.randrange(64), w.rng.randrange(64)
            source = np.zeros(size + 128, np.uint8)
            source[at:at + size] = pattern(size, size)
            room = np.full(size + 192, 0xA5, np.uint8)
            r = w.comms[1].Irecv(room[64 + to:64 + to + size], source=0, tag=size % 100)
            s = w.comms[0].Isend(source[at:at + size], dest=1, tag=size % 100)
            w.run(s, r)
            assert np.array_equal(room[64 + to:64 + to + size], pattern(size, size)), (size, at, to)
            assert (room[:64 + to] == 0xA5).all() and (room[64 + to + size:] == 0xA5).all()
