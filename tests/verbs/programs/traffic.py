"""Traffic of every size and kind over the verbs fabric, with the path that it must take.

Environment RING says whether small messages may be written into a ring.
"""

import contextlib
import mmap
import os
import tempfile
import time
import zlib

import numpy as np

from pyrdv import MPI
from tests.support.cases import resident, run

RING = os.environ.get("PYRDV_RDMA_RING") == "on"
# Around: an inline send (64, 256), a ring slot (256 less its tail), a page, the largest eager
# message (16 KiB), a READ of one and several chunks of iWARP (4 MiB).
EDGES = (0, 64, 168, 192, 216, 232, 256, 4096, 16384, 65536)
SIZES = [*sorted({edge + more for edge in EDGES for more in (-1, 0, 1, 40) if edge + more >= 0}),
         1 << 20, (4 << 20) + 1]
LARGEST = 8 << 20


def counters():
    """What the verbs fabric of this rank did so far."""
    fabric, = (one for one in MPI._world.engine.fabrics if type(one).__name__ == "VerbsFabric")
    return fabric.counters


def since(before):
    """What it did since."""
    return {name: count - before[name] for name, count in counters().items()}


def pattern(size, seed):
    """`size` bytes that differ between seeds and places."""
    return ((np.arange(size, dtype=np.uint64) * np.uint64(0x9E3779B1) + np.uint64(seed * 7919))
            >> np.uint64(7)).astype(np.uint8)


def neighbours(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def case_every_size(comm):
    """Both ways at once, every size around every threshold; nothing around it is touched."""
    right, left = neighbours(comm)
    for number, size in enumerate([*SIZES, LARGEST]):
        data = pattern(size, comm.rank * 100 + number)
        room = np.full(size + 16, 0xA5, np.uint8)
        status = MPI.Status()
        comm.Sendrecv(data, right, number, room[8:8 + size], left, number, status)
        assert status.Get_count() == size
        assert (room[:8] == 0xA5).all() and (room[8 + size:] == 0xA5).all(), size
        assert zlib.crc32(room[8:8 + size]) == zlib.crc32(pattern(size, left * 100 + number)), size


def case_all_sizes_at_once(comm):
    """The same, all outstanding at once, received in another order than they were sent."""
    right, left = neighbours(comm)
    kept = [pattern(size, comm.rank * 100 + n) for n, size in enumerate(SIZES)]
    sends = [comm.Isend(data, right, n) for n, data in enumerate(kept)]
    rooms = {n: np.empty(size, np.uint8) for n, size in enumerate(SIZES)}
    order = sorted(rooms, key=lambda n: n * 7 % len(rooms))
    MPI.Request.Waitall([comm.Irecv(rooms[n], left, n) for n in order] + sends)
    for n, size in enumerate(SIZES):
        assert (rooms[n] == pattern(size, left * 100 + n)).all(), size


def case_paths(comm):
    """Small messages are packets, large ones transfers by who comes last; the ring is as asked."""
    right, left = neighbours(comm)
    comm.Barrier()
    before = counters()
    for size, count in ((8, 400), (16384, 30), (1 << 20, 3)):
        data, room = np.ones(size, np.uint8), np.empty(size, np.uint8)
        for _ in range(count):
            comm.Sendrecv(data, right, 0, room, left, 0)
    comm.Barrier()
    done = since(before)
    # Transfers are of the late side: reads of a receiver, writes of a sender.
    assert comm.allreduce(done["reads"] + done["writes"]) >= 3 * comm.size, done
    # Beside the announcements of the large ones and what ends them.
    assert 430 < done["packets"] < 600, done
    assert done["links"] == 0, done
    # A rank that sleeps takes its ring back, so only some go that way.
    assert (done["ring_packets"] > 0) == RING, done
    total = comm.allreduce(done["packets"] - done["received"])
    assert total == 0 or RING or abs(total) < 8, total


def case_any_source(comm):
    """Wildcards among all ranks: 300 of each, in the order of each sender."""
    if comm.rank:
        for number in range(300):
            comm.Send(np.full(1 + number % 40, number), 0, number % 5)
        return
    next_of = dict.fromkeys(range(1, comm.size), 0)
    for _ in range(300 * (comm.size - 1)):
        status = MPI.Status()
        room = np.empty(50, int)
        comm.Recv(room, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        number = next_of[status.source]
        assert room[0] == number and status.tag == number % 5
        assert status.Get_count(MPI.LONG) == 1 + number % 40
        next_of[status.source] += 1


def case_probes(comm):
    """M05: the first positive probe has the final count, whatever the protocol."""
    right, left = neighbours(comm)
    sizes = (0, 8, 16384, 16385, 300_000, 2 << 20)
    kept = [comm.Isend(pattern(size, n), right, 3) for n, size in enumerate(sizes)]
    for n, size in enumerate(sizes):
        status = MPI.Status()
        while not comm.Iprobe(left, MPI.ANY_TAG, status):
            pass
        assert status.Get_count() == size and status.tag == 3
        message = comm.Mprobe(left, 3)
        room = np.empty(size, np.uint8)
        message.Recv(room)
        assert (room == pattern(size, n)).all()
    MPI.Request.Waitall(kept)


def case_objects(comm):
    """Objects with arrays in them, small and large, both ways at once."""
    right, left = neighbours(comm)
    for size in (1, 1000, 20_000, 700_000):
        mine = {"rank": comm.rank, "data": np.full(size, comm.rank), "text": "ä" * size}
        got = comm.sendrecv(mine, right, 1, None, left, 1)
        assert got["rank"] == left and len(got["text"]) == size
        assert (got["data"] == left).all() and len(got["data"]) == size


def case_flood(comm):
    """P03, small: 8000 blocking sends to a receiver that sleeps; memory stays bounded."""
    if comm.rank == 1:
        for number in range(8000):
            comm.Send(np.array([number]), 0, 1)
        assert comm.recv(None, 0, 2) == "crossing"
    elif comm.rank == 0:
        request = comm.isend("crossing", 1, 2)
        time.sleep(1)
        before = resident()
        room = np.empty(1, int)
        for number in range(8000):
            comm.Recv(room, 1, 1)
            assert room[0] == number
        assert resident() - before < 64 << 20
        request.wait()


def case_many_outstanding(comm):
    """P04, small: 3000 sends of 100 bytes and 50 of 200 KB to each neighbour, one waitall."""
    right, left = neighbours(comm)
    small = [np.full(100, number % 251, np.uint8) for number in range(3000)]
    large = [np.full(200_000, number, np.uint8) for number in range(50)]
    requests = [comm.Isend(data, right, 1) for data in small]
    requests += [comm.Isend(data, right, 2) for data in large]
    room = np.empty(100, np.uint8)
    for number in range(3000):
        comm.Recv(room, left, 1)
        assert (room == number % 251).all()
    rooms = [np.empty(200_000, np.uint8) for _ in large]
    MPI.Request.Waitall(requests + [comm.Irecv(room, left, 2) for room in rooms])
    assert all((room == number).all() for number, room in enumerate(rooms))


def case_late_receiver(comm):
    """P05: a receiver that sleeps 1 ms every 100 messages; no error, no stall of seconds."""
    data, gap = np.zeros(100), 0.0
    if comm.rank < 2:
        last = time.monotonic()
        for number in range(3000):
            if comm.rank == 1:
                comm.Send(data, 0)
            else:
                if number % 100 == 99:
                    time.sleep(0.001)
                comm.Recv(data, 1)
            gap = max(gap, time.monotonic() - last)
            last = time.monotonic()
    assert gap < 2, gap


def case_registered_kinds(comm):
    """R05, R06, shrunk: read-only memory, odd offsets, mapped files, huge pages if there are."""
    right, left = neighbours(comm)
    size = 300_000
    area = mmap.mmap(-1, 4 << 20)
    with contextlib.suppress(OSError):      # a kernel without them
        area.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(area, np.uint8)
    whole[:] = pattern(whole.size, comm.rank)
    with tempfile.TemporaryFile() as file:
        file.write(pattern(size, comm.rank + 5))
        file.flush()
        mapped = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
    sources = [pattern(size, comm.rank).tobytes(), mapped,
               whole[1:1 + size], whole[4096:4096 + size], whole[4095:4095 + size]]
    for number, source in enumerate(sources):
        room = np.empty(size, np.uint8)
        comm.Sendrecv(source, right, number, room, left, number)
        mine = zlib.crc32(memoryview(source)[:size])
        assert comm.sendrecv(mine, right, 9, None, left, 9) == zlib.crc32(room)


def case_many_buffers(comm):
    """R07, shrunk: 500 buffers of 64 KiB, all kept: no region outlives them (memory.py: bounds)."""
    right, left = neighbours(comm)
    kept = [np.full(65536, number % 251, np.uint8) for number in range(500)]
    room = np.empty(65536, np.uint8)
    before = counters()
    for number in range(500):
        comm.Sendrecv(kept[number], right, 0, room, left, 0)
        assert room[0] == number % 251
    kept.clear()
    done = since(before)
    # Some may be written by their sender: who comes first is not settled.
    assert comm.allreduce(done["reads"] + done["writes"]) >= 500 * comm.size, done
    assert done["registrations"] - done["deregistrations"] < 100, done


run(globals())
