"""Registrations that outlive their messages, on a device that reads the pages it was given.

Were one of them stale, the device would read or write memory that is not the array's any more, and
what arrives would be what was there before.  The environment has every large array mapped on its
own (MALLOC_MMAP_THRESHOLD_), so that its pages go when it does and the next one gets its address.
"""

import array
import ctypes
import gc
import mmap
import os

import numpy as np
import pandas

import pyrdv
from pyrdv import MPI
from tests.support.cases import run

SIZE = 300_000
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
TRUST = os.environ.get("PYRDV_REGISTRATION_CACHE") == "trust"
OFFERS = os.environ["PYRDV_SPECULATION"] != "off"
FABRIC, = (one for one in MPI._world.engine.fabrics if type(one).__name__ == "VerbsFabric")
with open(f"/sys/class/infiniband/{FABRIC.device.partition(':')[0]}/node_type",
          encoding="ascii") as file:
    IWARP = file.read().startswith("4")
# How many of four receives may find their array registered (C6 of memory/mappings.pxd).  Not known
# where it depends on who comes first: an offered buffer is one that its peer may write into.
FOUND = range(4, 5) if TRUST else range(5) if OFFERS else range(1) if IWARP else range(4, 5)


def pattern(size, seed):
    """`size` bytes that differ between seeds and places."""
    return ((np.arange(size, dtype=np.uint64) * np.uint64(0x9E3779B1) + np.uint64(seed * 7919))
            >> np.uint64(7)).astype(np.uint8)


def fill(data, seed):
    """Write the pattern of `seed` over all of `data`; returns it."""
    flat = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) \
        else data.reshape(-1).view(np.uint8)
    flat[:] = pattern(len(flat), seed)
    return data


def pass_on(comm, data, size, seed, room=None):
    """Rank 0 sends `data`, which holds the pattern of `seed`; rank 1 looks at what arrives."""
    if comm.rank == 0:
        comm.Send(data, 1)
    else:
        room = np.zeros(size, np.uint8) if room is None else room
        comm.Recv(room, 0)
        assert (np.frombuffer(room, np.uint8)[:size] == pattern(size, seed)).all(), seed


def counted(name):
    return MPI.counters()[f"registration_{name}"]


def case_an_array_is_registered_once(comm):
    data = np.empty(SIZE, np.uint8)
    # With the first message bounce buffers are registered, too.
    pass_on(comm, fill(np.empty(SIZE, np.uint8), 8), SIZE, 8)
    before = counted("misses"), counted("hits"), FABRIC.counters["registrations"]
    for seed in range(4):
        fill(data, seed)
        pass_on(comm, data, SIZE, seed, data)
    after = counted("misses"), counted("hits"), FABRIC.counters["registrations"]
    made, found, registered = (new - old for new, old in zip(after, before, strict=True))
    if comm.rank == 0:
        assert (made, found, registered) == (1, 3, 1)
    else:
        # Twice, if the first receive came second and the next one first, with more rights.
        assert made + found in FOUND and made <= 1 + OFFERS
        assert registered == made + 4 - (made + found)


def case_freed_and_made_again(comm):
    """The next array gets the address of the last, and other pages."""
    addresses = set()
    for seed in range(40):
        data = fill(np.empty(SIZE, np.uint8), seed)
        addresses.add(data.ctypes.data)
        pass_on(comm, data, SIZE, seed)
        del data
    assert len(addresses) < 40, "no address came twice: the case tests nothing"


def case_received_into_what_was_made_again(comm):
    data = np.empty(SIZE, np.uint8)
    addresses = set()
    for seed in range(40):
        room = np.zeros(SIZE, np.uint8)
        addresses.add(room.ctypes.data)
        pass_on(comm, fill(data, seed), SIZE, seed, room)
        del room
    assert len(addresses) < 40


def case_views_die_later_than_their_arrays_name(comm):
    for seed in range(10):
        data = fill(np.empty(2 * SIZE, np.uint8), seed)
        view = memoryview(data[:][:SIZE].reshape(10, -1)).cast("B")
        del data
        pass_on(comm, view, SIZE, seed)
        pass_on(comm, view, SIZE, seed)
        del view


def case_collected_in_a_cycle(comm):
    for seed in range(10):
        holder = [fill(np.empty(SIZE, np.uint8), seed)]
        holder.append(holder)
        pass_on(comm, holder[0], SIZE, seed)
        del holder
        gc.collect()


def case_resized(comm):
    data = fill(np.empty(SIZE, np.uint8), 1)
    pass_on(comm, data, SIZE, 1)
    if comm.rank == 0:
        try:
            data.resize(2 * SIZE, refcheck=False)
        except ValueError:
            pass
        else:
            raise AssertionError("NumPy moves an array that is watched")
        assert pyrdv.release(data)
    for seed, size in enumerate((2 * SIZE, SIZE // 2, 9 * SIZE), start=2):
        data.resize(size, refcheck=False)
        fill(data, seed)
        pass_on(comm, data, size, seed)
        pyrdv.release(data)


def case_walked_through(comm):
    """Pieces join to ever larger registrations while earlier ones are in use."""
    step = 40_000
    data = fill(np.empty(32 * step, np.uint8), 5)
    whole = pattern(32 * step, 5)
    requests, rooms = [], []
    for number in (*range(0, 32, 2), *range(31, 0, -2)):
        part = slice(number * step, (number + 1) * step)
        if comm.rank == 0:
            requests.append(comm.Isend(data[part], 1, number))
        else:
            rooms.append((part, np.empty(step, np.uint8)))
            requests.append(comm.Irecv(rooms[-1][1], 0, number))
    MPI.Request.Waitall(requests)
    assert all((room == whole[part]).all() for part, room in rooms)


def case_a_mapping_moves(comm):
    if comm.rank == 0:
        data = mmap.mmap(-1, SIZE, flags=PRIVATE)
    for seed, size in enumerate((SIZE, 4 * SIZE, SIZE, 9 * SIZE)):
        if comm.rank == 0:
            data.resize(size)
            fill(data, seed)
        pass_on(comm, data if comm.rank == 0 else None, size, seed)


def case_pages_are_dropped_and_filled_again(comm):
    """Field case R13."""
    if comm.rank == 0:
        data = mmap.mmap(-1, SIZE, flags=PRIVATE)
    for seed in range(5):
        if comm.rank == 0:
            data.madvise(mmap.MADV_DONTNEED)
            fill(data, seed)
        pass_on(comm, data if comm.rank == 0 else None, SIZE, seed)


def case_columns_of_a_frame(comm):
    for seed in range(10):
        frame = pandas.DataFrame({"a": np.arange(SIZE / 8), "b": np.arange(SIZE / 8) + seed})
        if comm.rank == 0:
            comm.Send(frame["b"].to_numpy(), 1)
            comm.Send(frame["b"].to_numpy()[100:], 1)
        else:
            for expected in (frame["b"], frame["b"][100:]):
                room = np.zeros(len(expected))
                comm.Recv(room, 0)
                assert (room == expected).all()
        del frame


class Tensor:
    """Offers DLPack alone."""

    def __init__(self, seed):
        self.inner = fill(np.empty(SIZE, np.uint8), seed)

    def __dlpack__(self, **options):
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


def case_of_many_kinds(comm):
    """Owners that cannot be watched, or may move."""
    kinds = (
        lambda seed: bytes(pattern(SIZE, seed)),
        lambda seed: bytearray(pattern(SIZE, seed)),
        lambda seed: array.array("B", pattern(SIZE, seed).tobytes()),
        lambda seed: memoryview(bytearray(pattern(SIZE, seed))),
        lambda seed: (ctypes.c_char * SIZE).from_buffer_copy(pattern(SIZE, seed)),
        lambda seed: np.frombuffer(bytearray(pattern(SIZE, seed)), np.uint8),
        Tensor,
        lambda seed: np.from_dlpack(Tensor(seed)),
    )
    before = counted("misses")
    for make in kinds:
        for seed in range(6):
            data = make(seed)
            pass_on(comm, data, SIZE, seed)
            del data
    if comm.rank == 0:
        assert counted("misses") == before


def case_in_the_pool(comm):
    """Nothing is registered for a message; memory is used again under the same registration."""
    first = pyrdv.empty(SIZE, np.uint8)
    del first
    before = counted("misses")
    for seed in range(20):
        data = fill(pyrdv.empty(SIZE, np.uint8), seed)
        room = pyrdv.empty(SIZE, np.uint8)
        pass_on(comm, data, SIZE, seed, room)
        with pyrdv.registered_memory():
            pass_on(comm, data + np.uint8(0), SIZE, seed, room)
        del data, room
    assert counted("misses") == before
    assert MPI.counters()["registration_pool_bytes"] > 0


def case_pinned(comm):
    data = bytearray(SIZE)
    with pyrdv.register(data):
        before = counted("hits")
        for seed in range(4):
            fill(data, seed)
            pass_on(comm, data, SIZE, seed, data)
        assert counted("hits") - before in (FOUND if comm.rank else (4,))
    data += b"more"
    fill(data, 9)
    pass_on(comm, data, SIZE + 4, 9)


def case_many_that_live_on(comm):
    """Field case R07: what is registered stays bounded."""
    arrays = [fill(np.empty(20_000, np.uint8), seed) for seed in range(300)]
    for seed, data in enumerate(arrays):
        pass_on(comm, data, 20_000, seed)
    counters = FABRIC.counters
    assert counters["registrations"] - counters["deregistrations"] < 150
    del arrays, data
    assert counted("entries") <= 64


KEPT_TO_THE_END = np.full(SIZE, 3, np.uint8)


def case_kept_to_the_end(comm):
    """What the interpreter frees at its exit, long after the device is closed."""
    comm.Sendrecv(KEPT_TO_THE_END, 1 - comm.rank, 0, KEPT_TO_THE_END.copy(), 1 - comm.rank, 0)


run(globals())
