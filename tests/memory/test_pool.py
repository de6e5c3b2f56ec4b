"""Arrays in a pool of registered memory: A1 to A4 of memory/pool.pxd, and NumPy's handler."""

import gc
import os
import threading
import warnings

import numpy as np
import pytest

from pyrdv.memory.allocator import Pool, RegisteredMemory

MIB = 1 << 20


@pytest.fixture
def memory():
    """A pool of 8 MiB in arenas of 2 MiB, which must be empty in the end."""
    made = RegisteredMemory(Pool(8 * MIB, 2 * MIB))
    yield made
    gc.collect()
    assert made.pool.counters()["pool_in_use"] == 0


def new(memory, nbytes, value=0):
    return memory.make(np.full, nbytes, value, np.uint8)


# ---------------------------------------------------------------- extents


def test_large_arrays_are_in_the_pool_and_small_ones_are_not(memory):
    assert memory.pool.holds(new(memory, 16_384))
    assert not memory.pool.holds(new(memory, 16_383))
    assert not memory.pool.holds(np.empty(MIB, np.uint8))
    with memory:
        assert memory.pool.holds(np.ones(100_000) + 1)
        assert memory.pool.holds(np.zeros(100_000))
    assert not memory.pool.holds(np.ones(100_000))


def test_memory_of_dead_arrays_is_used_again(memory):
    for number in range(100):
        data = new(memory, MIB + number)
        assert memory.pool.holds(data)
        del data
    assert memory.pool.counters()["pool_committed"] == 2 * MIB


def test_free_neighbours_join(memory):
    """A3: whatever the order of their ends, an arena is one extent again."""
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [0, 2, 1, 3], [2, 1, 3, 0]):
        pieces = {number: new(memory, MIB // 2, number) for number in range(4)}
        for number in order:
            assert (pieces.pop(number) == number).all()
        whole = new(memory, 2 * MIB)
        assert memory.pool.holds(whole)
        assert memory.pool.counters()["pool_committed"] == 2 * MIB
        del whole


def test_arenas_do_not_join(memory):
    """A3: an extent lies inside one arena, which is registered as a whole."""
    pieces = [new(memory, 2 * MIB) for _ in range(2)]
    assert memory.pool.counters()["pool_committed"] == 4 * MIB
    del pieces
    large = new(memory, 3 * MIB)
    assert memory.pool.counters() | {"pool_committed": 8 * MIB, "pool_arenas": 3} \
        == memory.pool.counters()
    del large


@pytest.mark.filterwarnings("ignore:the pool of registered memory")
def test_random_lives(memory):
    rng = np.random.default_rng(3)
    alive = []
    for number in range(4000):
        if alive and rng.random() < 0.5:
            data, value = alive.pop(rng.integers(len(alive)))
            assert data[0] == data[-1] == value and (data[::4096] == value).all()
            del data
        else:
            size = int(rng.choice((16_384, 20_000, 100_000, 700_000))) + int(rng.integers(5000))
            alive.append((new(memory, size, number % 251), number % 251))
        if len(alive) > 30:
            del alive[:10]
        used = sum(-(-len(entry[0]) // 4096) * 4096 for entry in alive
                   if memory.pool.holds(entry[0]))
        assert memory.pool.counters()["pool_in_use"] == used


def test_zeros_are_zeros(memory):
    new(memory, MIB, 255)
    data = memory.make(np.zeros, MIB, np.uint8)
    assert memory.pool.holds(data) and not data.any()


def test_resize_keeps_what_is_there(memory):
    data = memory.make(np.arange, 10_000)
    for size in (50_000, 200_000, 20_000, 100, 60_000):
        kept = min(len(data), size)
        data.resize(size, refcheck=False)
        assert (data[:kept] == np.arange(kept)[:kept]).all() or kept > 100
        data[:] = np.arange(size)
        assert memory.pool.holds(data)
    in_use = memory.pool.counters()["pool_in_use"]
    assert in_use == -(-60_000 * 8 // 4096) * 4096


def test_a_full_pool_warns_once_and_goes_on(memory):
    kept = [new(memory, 2 * MIB) for _ in range(4)]
    with pytest.warns(UserWarning, match="PYRDV_POOL_BYTES") as said:
        kept.append(new(memory, MIB, 4))
    assert len(said) == 1
    assert not memory.pool.holds(kept[-1]) and (kept[-1] == 4).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.append(new(memory, MIB))
        with memory:
            kept.append(np.zeros(MIB))
    kept.clear()
    assert memory.pool.holds(new(memory, MIB))


def test_an_array_larger_than_the_pool(memory):
    with pytest.warns(UserWarning, match="all in use"):
        assert not memory.pool.holds(new(memory, 9 * MIB))


def test_too_many_addresses():
    with pytest.raises(MemoryError, match="PYRDV_POOL_BYTES"):
        Pool(1 << 60)


def test_arrays_outlive_everything_else():
    memory = RegisteredMemory(Pool(2 * MIB))
    data = new(memory, MIB, 5)
    del memory
    gc.collect()
    assert (data == 5).all()
    data[:] = 6
    assert (data == 6).all()


def test_contexts_nest_and_are_left_by_errors(memory):
    other = RegisteredMemory(Pool(2 * MIB))
    with pytest.raises(KeyError), memory, other:
        data = np.zeros(MIB, np.uint8)
        assert other.pool.holds(data) and not memory.pool.holds(data)
        raise KeyError
    with memory:
        with memory:
            assert memory.pool.holds(np.zeros(MIB, np.uint8))
        assert memory.pool.holds(np.zeros(MIB, np.uint8))
    assert not memory.pool.holds(np.zeros(MIB, np.uint8))


def test_a_context_counts_for_its_thread(memory):
    seen = []
    with memory:
        thread = threading.Thread(target=lambda: seen.append(memory.pool.holds(np.zeros(MIB))))
        thread.start()
        thread.join()
    assert seen == [False]


def test_many_threads(memory):
    failed = []

    def churn(seed):
        rng = np.random.default_rng(seed)
        try:
            own = []
            mine = RegisteredMemory(memory.pool)
            for _ in range(500):
                own.append(new(mine, int(rng.integers(16_384, 300_000)), seed))
                if len(own) > 4:
                    data = own.pop(int(rng.integers(len(own))))
                    assert (data == seed).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_forked_child_leaves_the_pool_alone(memory):
    """A4: it reads and frees its arrays, and makes new ones elsewhere."""
    data = new(memory, MIB, 7)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if (data == 7).all():
                del data
                status = 0 if not memory.pool.holds(new(memory, MIB)) else 2
        finally:
            os._exit(status)
    data[:] = 8
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (data == 8).all()


# ---------------------------------------------------------------- registered


@pytest.fixture
def attached(sim):
    """Make a pair and a pool registered with its rank 0."""
    made = []

    def make(size=8 * MIB, **options):
        world = sim(**options)
        memory = RegisteredMemory(Pool(size, 2 * MIB))
        made.append(memory.pool)
        assert memory.pool.attach(world.engines[0].registrations, world.engines[0])
        return world, memory

    yield make
    for pool in made:
        pool.attach(None)


def test_nothing_is_registered_for_a_message(attached):
    world, memory = attached()
    for number in range(20):
        data = new(memory, MIB + number, number)
        world.send(data, np.empty(2 * MIB, np.uint8))
        world.send(data[1000:70_000], np.empty(2 * MIB, np.uint8))
        del data
    count = world.count()
    assert (count["misses"], count["hits"], count["pool_bytes"]) == (0, 40, 2 * MIB)
    assert count["entries"] == count["owners"] == 0
    assert world.kept() == 1


def test_received_into_without_registration(attached):
    world, memory = attached()
    room = new(memory, MIB)
    world.settle(world.comms[0].Irecv(room, 1), world.comms[1].Isend(np.full(MIB, 3, np.uint8), 0))
    assert (room == 3).all() and world.count()["misses"] == 0


def test_what_a_peer_may_write_is_registered_for_the_message(attached):
    """C6 holds for the pool, too."""
    world, memory = attached(speculation="indexed")
    room = new(memory, MIB)
    receive = world.comms[0].Irecv(room, 1, 5)
    world.settle(receive, world.comms[1].Isend(np.full(MIB, 3, np.uint8), 0, 5))
    assert world.engines[0].counters()["rtrs_sent"] == 1
    assert world.kept() == 1


def test_pool_without_room_to_register(attached):
    world, memory = attached(lockable=5 * MIB)
    kept = [new(memory, 2 * MIB) for _ in range(2)]
    assert memory.pool.counters()["pool_committed"] == 4 * MIB
    with pytest.warns(UserWarning, match="ulimit -l"):
        kept.append(new(memory, 2 * MIB - 1, 9))
    assert not memory.pool.holds(kept[-1])
    assert memory.pool.counters()["pool_committed"] == 4 * MIB
    kept.append(np.full(MIB // 2, 5, np.uint8))
    for data in kept[0], kept[3]:
        world.send(data, np.empty(2 * MIB, np.uint8))


def test_the_pool_takes_from_the_cache(attached):
    world, memory = attached(lockable=4 * MIB)
    data = np.full(3 * MIB, 1, np.uint8)
    world.send(data, np.empty(3 * MIB, np.uint8))
    assert world.count()["bytes"] == 3 * MIB
    assert memory.pool.holds(new(memory, MIB))
    assert world.count()["bytes"] == 0


def test_before_a_fork_the_pool_is_given_back_and_comes_again(attached):
    world, memory = attached()
    data = new(memory, MIB, 1)
    world.engines[0].fork()
    assert world.kept() == 0
    world.send(data)
    assert world.kept() == 1 and world.count()["pool_bytes"] == 2 * MIB
    world.send(data)
    assert (world.count()["misses"], world.count()["hits"]) == (1, 1)


def test_a_pool_comes_late_and_goes_early(sim):
    world = sim()
    memory = RegisteredMemory(Pool(8 * MIB, 2 * MIB))
    data = new(memory, MIB, 1)
    world.send(data)
    assert world.count()["misses"] == 1
    memory.pool.attach(world.engines[0].registrations, world.engines[0])
    world.send(data)
    assert (world.count()["misses"], world.count()["hits"]) == (1, 1)
    send = world.comms[0].Isend(data, 1)
    memory.pool.attach(None)
    world.settle(send, world.comms[1].Irecv(world.room, 0))
    assert world.count()["pool_bytes"] == 0
    world.send(data)
    assert (world.room[:MIB] == 1).all()


def test_a_pool_after_the_end_of_its_engine(sim):
    world = sim()
    memory = RegisteredMemory(Pool(8 * MIB, 2 * MIB))
    memory.pool.attach(world.engines[0].registrations, world.engines[0])
    first = new(memory, MIB, 1)
    world.engines[0].close()
    kept = [new(memory, 2 * MIB, 2) for _ in range(2)]
    assert memory.pool.holds(kept[1]) and (first == 1).all()
    memory.pool.attach(None)
