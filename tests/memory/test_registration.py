"""The registration cache, C1 to C7 of memory/mappings.pxd, over fabrics that count regions.

Copies within one machine are always of the memory that is there; whether a device would have read
stale pages shows here in what is still registered, and on devices in tests/verbs.
"""

import array
import ctypes
import gc
import mmap
import queue
import threading

import numpy as np
import pandas
import pytest

from pyrdv.api import pinned
from pyrdv.memory.registration import Registrations

N = 100_000


def filled(n=N, value=1):
    return np.full(n, value, np.uint8)


# ---------------------------------------------------------------- hits


def test_second_message_of_an_array_finds_it_registered(pair):
    world = pair()
    data = filled()
    for number in range(3):
        data[:] = number
        world.send(data)
        assert world.kept() == 1
    count = world.count()
    assert (count["misses"], count["hits"], count["entries"]) == (1, 2, 1)
    assert count["bytes"] == N


def test_views_of_views_belong_to_the_array_that_allocated(pair):
    world = pair()
    data = np.arange(N, dtype=np.uint8).reshape(100, -1)
    world.send(data)
    views = [data[10:90], data.reshape(-1)[5000:40_000], data[1:][1:][1:], data.view(np.int8),
             memoryview(data), memoryview(memoryview(data)).cast("B"),
             np.asarray(memoryview(data)), np.frombuffer(memoryview(data).cast("B"), np.uint8)[9:]]
    for number, view in enumerate(views, start=1):
        world.send(view)
        assert (world.count()["misses"], world.count()["hits"]) == (1, number)
    del data, views, view
    gc.collect()
    assert world.kept() == 0


def test_small_messages_do_not_look(pair):
    world = pair()
    before = world.count()
    for size in (0, 1, 2000, 4000):
        world.send(filled(size))
    assert world.count() == before


def test_nothing_is_kept_when_switched_off(pair):
    world = pair("off")
    data = filled()
    world.send(data)
    world.send(data)
    assert world.kept() == 0 and set(world.count().values()) == {0}


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="'always'"):
        Registrations("always")


# ---------------------------------------------------------------- staleness


def test_registration_ends_with_the_array(pair):
    """C2: and before it does, for every look from outside that sees the array gone."""
    world = pair()
    data = filled()
    world.send(data)
    assert world.kept() == 1
    del data
    assert world.kept() == 0 and world.count()["ends"] == 1


def test_same_address_again_is_another_array(pair):
    """Large arrays are mapped and unmapped; the next one mostly gets the same address."""
    world = pair()
    addresses = set()
    for number in range(50):
        data = filled(1 << 20, number)
        addresses.add(data.ctypes.data)
        world.send(data)
        assert world.count()["misses"] == number + 1
        assert world.kept() == 1
        del data
    assert len(addresses) < 50, "no address came twice: the test tests nothing"
    assert world.kept() == 0


def test_an_array_in_a_cycle_ends_in_the_collector(pair):
    world = pair()

    class Holder:
        pass

    holder = Holder()
    holder.itself, holder.data = holder, filled()
    world.send(holder.data)
    del holder
    assert world.kept() == 1
    gc.collect()
    assert world.kept() == 0


@pytest.mark.parametrize("refcheck", [True, False])
def test_numpy_refuses_to_move_what_is_watched(pair, refcheck):
    world = pair()
    data = filled()
    world.send(data)
    with pytest.raises(ValueError, match="cannot resize"):
        data.resize(2 * N, refcheck=refcheck)
    assert pinned.forget(world.engines[0], data)
    assert world.kept() == 0
    data.resize(2 * N, refcheck=False)
    world.send(data)
    assert world.count()["bytes"] == 2 * N
    assert not pinned.forget(world.engines[0], bytearray(10))


def swap_data(one, other):
    """Exchange the memory of two arrays behind NumPy's back, as an extension module might."""
    pointers = [ctypes.c_void_p.from_address(id(array) + object.__basicsize__)
                for array in (one, other)]
    assert [pointer.value for pointer in pointers] == [one.ctypes.data, other.ctypes.data]
    pointers[0].value, pointers[1].value = pointers[1].value, pointers[0].value


def test_moved_behind_the_back(pair):
    """C4: the pointer is not what it was."""
    world = pair()
    one, other = filled(N, 1), filled(N, 2)
    world.send(one)
    world.send(other)
    swap_data(one, other)
    world.send(one)
    world.send(other)
    count = world.count()
    assert (count["misses"], count["hits"], count["ends"]) == (4, 0, 2)
    assert world.kept() == 2


def buffers():
    """Owners that may move, that cannot be watched, or of which nothing is known."""
    return list(all_buffers())


def all_buffers():
    yield "bytes", bytes(N)
    yield "bytearray", bytearray(N)
    yield "array", array.array("B", bytes(N))
    yield "mmap", mmap.mmap(-1, N)
    yield "memoryview", memoryview(bytearray(N))
    yield "frombuffer", np.frombuffer(bytearray(N), np.uint8)
    yield "of bytes", np.frombuffer(bytes(N), np.uint8)
    yield "ctypes", (ctypes.c_char * N)()
    yield "pointer", np.ctypeslib.as_array((ctypes.c_uint8 * N).from_buffer(bytearray(N)))
    yield "strided", np.lib.stride_tricks.as_strided(filled(), (50_000,), (1,))
    yield "dlpack", np.from_dlpack(Tensor(filled()))


class Tensor:
    """Offers DLPack alone."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, **options):
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


@pytest.mark.parametrize("name, data", buffers(), ids=lambda value: value
                         if isinstance(value, str) else "")
def test_what_may_move_or_cannot_be_watched_is_not_kept(pair, name, data):
    world = pair()
    for _ in range(2):
        world.send(data)
        assert world.kept() == 0
    assert set(world.count().values()) == {0}


def test_a_dlpack_object_is_not_kept(pair):
    world = pair()
    inner = filled()
    world.settle(world.comms[1].Irecv(world.room, 0), world.comms[0].Isend(Tensor(inner), 1))
    assert world.kept() == 0 and (world.room[:N] == 1).all()


def test_pandas_columns_belong_to_their_block(pair):
    world = pair()
    frame = pandas.DataFrame({"a": np.arange(N // 8.0), "b": np.arange(N // 8.0)})
    for _ in range(2):
        world.send(frame["a"].to_numpy())
    count = world.count()
    assert (count["misses"], count["hits"]) == (1, 1)
    del frame
    gc.collect()
    assert world.kept() == 0


# ---------------------------------------------------------------- rights of peers


def offer(world, data):
    """A receive that comes first and offers its buffer, on rank 1; then its message."""
    receive = world.comms[1].Irecv(data, 0, 5)
    for engine in world.engines:
        engine.turn()
    world.settle(world.comms[0].Isend(filled(len(data), 3), 1, 5), receive)
    assert (data == 3).all()
    assert world.engines[1].counters()["rtrs_sent"] > 0


@pytest.mark.parametrize("mode, kept", [("auto", 0), ("trust", 1)])
def test_what_a_peer_may_write_into(sim, mode, kept):
    """C6: it is kept only if peers are trusted."""
    world = sim(mode, speculation="indexed")
    data = filled()
    offer(world, data)
    assert world.kept(1) == kept
    offer(world, data)
    assert world.count(1)["hits"] == kept


@pytest.mark.parametrize("mode, kept", [("auto", 0), ("trust", 1)])
def test_sinks_where_reading_lets_the_peer_write(sim, mode, kept):
    """C6 on iWARP: the sink of a READ is open to the peer."""
    world = sim(mode, open_sinks=True)
    room = filled()
    world.send(filled(), room)
    assert world.kept(1) == kept


# ---------------------------------------------------------------- ends


def test_arrays_may_outlive_the_engine(pair):
    world = pair()
    data = filled()
    world.send(data)
    world.engines[0].close()
    assert world.kept() == 0
    del data
    gc.collect()


def test_an_engine_may_end_without_being_closed(sim):
    world = sim()
    data = filled()
    world.send(data)
    network = world.network
    world.comms[:] = []
    world.engines[:] = []
    gc.collect()
    assert network.regions(0) == 0
    del data


def test_before_a_fork_nothing_unused_stays_registered(sim):
    world = sim()
    arrays = [filled(), filled()]
    for data in arrays:
        world.send(data)
    send = world.comms[0].Isend(arrays[0], 1)
    world.engines[0].fork()
    assert world.kept() == 1
    world.settle(send, world.comms[1].Irecv(world.room, 0))
    world.send(arrays[1])
    assert world.count()["entries"] == 2


def test_arrays_that_end_in_other_threads(shm):
    """C1: the callback waits for the lock, whoever holds it, and with or without the GIL."""
    world = shm(entries_max=8)
    ended = queue.SimpleQueue()
    failed = []

    def run(work):
        try:
            while work():
                pass
        except BaseException as error:
            failed.append(error)

    def drop():
        return ended.get() is not None

    def turn():
        world.engines[0].turn()
        return not stop.is_set()

    stop = threading.Event()
    threads = [threading.Thread(target=run, args=(work,)) for work in (drop, drop, turn, turn)]
    for thread in threads:
        thread.start()
    try:
        for number in range(400):
            data = filled(N, number % 251)
            world.send(data)
            ended.put(data)
            del data
    finally:
        stop.set()
        for _ in threads:
            ended.put(None)
        for thread in threads:
            thread.join()
    assert not failed
    assert world.kept() == 0 and world.count()["ends"] + world.count()["evictions"] == 400


def test_random_lives(pair):
    """Arrays are made, sent, moved, cut and freed in any order; every byte arrives."""
    world = pair(entries_max=6, bytes_max=6 * N)
    rng = np.random.default_rng(7)
    arrays = []
    for _ in range(600):
        choice = rng.integers(6)
        if choice == 0 or not arrays:
            arrays.append(filled(int(rng.integers(10_000, 3 * N)), int(rng.integers(256))))
        elif choice == 1:
            del arrays[rng.integers(len(arrays))]
        elif choice == 2:
            data = arrays[rng.integers(len(arrays))]
            pinned.forget(world.engines[0], data)
            data.resize(int(rng.integers(10_000, 3 * N)), refcheck=False)
        else:
            data = arrays[rng.integers(len(arrays))]
            data[:] = rng.integers(256)
            begin = int(rng.integers(len(data)))
            world.send(data[begin:] if choice == 3 else data[:begin + 1])
        assert world.kept() <= 6
        assert world.count()["bytes"] <= 6 * N
    del arrays, data
    assert world.kept() == 0
