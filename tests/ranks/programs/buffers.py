"""Sizes and kinds of buffers between two ranks."""

import array
import datetime
import gc
import mmap
import random
import time

import numpy as np

from pyrdv import MPI
from pyrdv.errors import InvalidBufferError, TruncationError
from tests.support.cases import raises, reset_peak, resident, run

MIB = 1 << 20


def case_large_objects(comm):
    """B02, B07, at 300 MB: objects beyond the eager path arrive with a peak below 1.3 x their size.

    The sizes of the table (2.2 and 4.5 GB) are in test_huge.py.
    """
    nbytes = 300_000_000
    for make in (lambda: {"a": np.ones(nbytes, np.uint8)}, lambda: b"b" * nbytes,
                 lambda: bytearray(b"c") * nbytes):
        if comm.rank == 1:
            comm.send(make(), 0)
        else:
            reset_peak()
            before = resident("VmHWM")
            got = comm.recv(None, 1)
            assert resident("VmHWM") - before < 1.3 * nbytes
            data = got["a"] if isinstance(got, dict) else got
            assert len(data) == nbytes and data[0] == data[-1] == data[nbytes // 2]
            del got, data
        comm.Barrier()


def case_broadcast_of_a_large_object(comm):
    """B02: bcast of a 100 MB array inside an object; peak below 1.3 x its size."""
    nbytes = 100_000_000
    obj = {"a": np.full(nbytes, 7, np.uint8), "b": [1, 2]} if comm.rank == 0 else None
    gc.collect()
    reset_peak()
    before = resident("VmHWM")
    got = comm.bcast(obj, 0)
    if comm.rank:
        assert resident("VmHWM") - before < 1.3 * nbytes
    assert len(got["a"]) == nbytes and got["a"][0] == got["a"][-1] == 7 and got["b"] == [1, 2]
    got["a"][:10] = 1


def case_every_size_and_alignment(comm):
    """B05: sizes 0..130, then primes up to 70 001, at offsets 0..63 on both sides, guarded."""
    primes = [p for p in range(131, 70_002, 2)
              if all(p % d for d in range(3, int(p ** 0.5) + 1, 2))]
    draw = random.Random(5)
    sizes = [*range(131), *primes[::60], *draw.sample(primes, 200), 70_001]
    source = np.random.default_rng(1).integers(0, 256, 70_200, np.uint8)
    room = np.empty(70_300, np.uint8)
    for size in sizes:
        here, there = draw.randrange(64), draw.randrange(64)
        if comm.rank == 1:
            comm.Send(source[here:here + size], 0)
        else:
            room[:] = 0xA5
            status = MPI.Status()
            comm.Recv(room[64 + there:64 + there + size], 1, status=status)
            assert status.Get_count() == size
            assert (room[64 + there:64 + there + size] == source[here:here + size]).all()
            assert (room[:64 + there] == 0xA5).all() and (room[64 + there + size:] == 0xA5).all()


def case_mutability(comm):
    """B06: writable arrives writable, read-only read-only, bytearray as bytearray.

    Pickles alone: tests/api/test_objects.py.
    """
    for length in (10, 200_000):
        frozen = np.arange(length)
        frozen.flags.writeable = False
        obj = {"open": np.arange(length), "frozen": frozen, "bytes": b"x" * length,
               "bytearray": bytearray(b"y" * length), "view": np.arange(2 * length)[::2]}
        send = comm.isend(obj, 1 - comm.rank)
        got = comm.recv(None, 1 - comm.rank)
        send.wait()
        got["open"][0] = 5
        got["view"][0] = 5
        got["bytearray"][0] = 5
        got["bytearray"].append(3)
        assert not got["frozen"].flags.writeable and (got["frozen"] == frozen).all()
        assert type(got["bytes"]) is bytes and got["bytes"] == obj["bytes"]
        assert (got["open"][1:] == obj["open"][1:]).all()


def case_a_small_piece_keeps_no_large_one(comm):
    """B07: 200 MB and 1 KB in one object; keeping the small piece gives the rest back."""
    if comm.rank == 1:
        comm.send({"big": np.ones(200 * MIB, np.uint8), "small": np.ones(1024, np.uint8)}, 0)
    else:
        before = resident()
        got = comm.recv(None, 1)
        assert resident() - before > 190 * MIB
        small = got["small"]
        del got
        gc.collect()
        assert resident() - before < 10 * MIB
        assert small.sum() == 1024


def case_views_of_other_kinds(comm):
    """B08: multi-dimensional memoryviews and array.array travel with all their bytes."""
    flat = bytearray(np.arange(100.0).tobytes())
    views = [memoryview(flat).cast("d").cast("B"), memoryview(flat).cast("B").cast("d", (10, 10)),
             memoryview(flat), array.array("d", np.arange(100.0))]
    if comm.rank == 1:
        for view in views:
            comm.Send(view, 0)
            comm.Send(b"".join([b"head", bytes(view)]), 0)
    else:
        for _ in views:
            for target in (array.array("d", [0.0] * 100), bytearray(804)):
                status = MPI.Status()
                comm.Recv(target, 1, status=status)
                assert status.Get_count() == memoryview(target).nbytes in (800, 804)
                assert bytes(memoryview(target).cast("B"))[-800:] == bytes(flat)


class OnlyDLPack:
    """An array that offers nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def case_dlpack(comm):
    """B09: DLPack producers send and receive; nothing is kept.  Capsules: tests/api."""
    data = np.arange(1000.0)
    other = 1 - comm.rank
    room = OnlyDLPack(np.zeros(1000))
    for _ in range(200):
        request = comm.Irecv(room, other)
        comm.Send(OnlyDLPack(data), other)
        request.Wait()
    assert (room.array == data).all()
    before = resident()
    for _ in range(3000):
        request = comm.Irecv(room, other)
        comm.Send(OnlyDLPack(data), other)
        request.Wait()
    assert resident() - before < MIB
    frozen = np.zeros(1000)
    frozen.flags.writeable = False
    with raises((InvalidBufferError, BufferError)):
        comm.Irecv(OnlyDLPack(frozen), other)


def case_exports_are_given_back(comm):
    """B10, shrunk to 3000 rounds: a bytearray can be resized afterwards, error paths included."""
    buffer = bytearray(64)
    view = memoryview(bytearray(64))
    other = 1 - comm.rank
    for _ in range(1500):
        for side in (buffer, view):
            request = comm.Irecv(side, other)
            comm.Send(side[:], other)
            request.Wait()
    comm.Barrier()
    comm.Send(bytes(65), other)
    with raises(TruncationError):
        comm.Recv(buffer, other)
    with raises(MPI.Exception):
        comm.Send(buffer, 2)
    with raises(MPI.Exception):
        comm.Irecv([buffer, 100], other)
    big = bytearray(10 * MIB)
    request = comm.Irecv(bytearray(10 * MIB), other)
    comm.Send(big, other)
    request.Wait()
    cancelled = comm.Irecv(buffer, other)
    cancelled.Cancel()
    cancelled.Wait()
    for done in (buffer, big):
        done.extend(b"more")
    owner = view.obj
    view.release()
    owner.extend(b"more")


def case_reductions_of_booleans(comm):
    """B11: logical operations of booleans are right; SUM is right or refused by name."""
    mine = np.array([True, comm.rank == 0, False])
    for op, wanted in ((MPI.LAND, [True, False, False]), (MPI.LOR, [True, True, False]),
                       (MPI.LXOR, [False, True, False]), (MPI.MAX, [True, True, False]),
                       (MPI.MIN, [True, False, False])):
        result = np.zeros(3, bool)
        try:
            comm.Allreduce(mine, result, op)
        except MPI.Exception as error:
            assert op in (MPI.MAX, MPI.MIN) and "bool" in str(error).lower(), error
            continue
        assert result.tolist() == wanted, (op, result)
    with raises(MPI.Exception, "SUM"):
        comm.Allreduce(mine, np.zeros(3, bool), MPI.SUM)


def case_half_precision(comm):
    """B12: SUM and MAX of float16 are right within half precision."""
    mine = (np.arange(64) / 8 + comm.rank).astype(np.float16)
    result = np.empty_like(mine)
    try:
        comm.Allreduce(mine, result, MPI.SUM)
    except MPI.Exception as error:
        assert "16" in str(error) or "half" in str(error).lower(), error
        return
    assert np.allclose(result, np.arange(64) / 4 + 1, rtol=2e-3)
    comm.Allreduce(mine, result, MPI.MAX)
    assert (result == (np.arange(64) / 8 + 1).astype(np.float16)).all()


def case_types_of_the_two_sides_differ(comm):
    """B13: float32 into float64 says 40 bytes; float64 into float32 is a truncation."""
    if comm.rank == 1:
        comm.Send(np.ones(10, np.float32), 0)
        comm.Send(np.ones(10), 0)
    else:
        status = MPI.Status()
        room = np.zeros(10)
        comm.Recv(room, 1, status=status)
        assert status.Get_count() == 40 and not room[5:].any()
        guarded = np.zeros(20, np.float32)
        with raises(TruncationError, "80 bytes", "40 bytes"):
            comm.Recv(guarded[:10], 1)
        assert not guarded[10:].any()


def case_overlapping_buffers(comm):
    """B14: Sendrecv with overlapping slices is refused by a clear text, nothing is sent."""
    data = np.arange(20.0)
    other = 1 - comm.rank
    with raises(InvalidBufferError, "overlap", "Sendrecv_replace"):
        comm.Sendrecv(data[:12], other, 0, data[8:], other)
    comm.Barrier()
    assert not comm.Iprobe(other)
    comm.Barrier()
    comm.Sendrecv(data[:10], other, 0, data[10:], other)
    assert (data[:10] == data[10:]).all()
    data[:] = comm.rank
    comm.Sendrecv_replace(data, other, 0, other)
    assert (data == other).all()
    large = np.full(500_000, comm.rank, float)
    comm.Sendrecv_replace(large, other, 0, other)
    assert (large == other).all()


def case_odd_objects(comm):
    """B15: thousands of tiny arrays, dates, object and ragged arrays arrive right.

    The cost of tiny arrays is held by tests/api/test_objects.py.
    """
    ragged = np.empty(3, object)
    ragged[:] = [np.arange(n * 40_000) for n in range(3)]
    obj = {
        "tiny": [np.full(1, n, float) for n in range(1000)],
        "dates": np.arange("2020-01", "2060-01", dtype="datetime64[D]"),
        "objects": np.array([{"a": 1}, None, datetime.date(2020, 1, 2)], object),
        "ragged": ragged,
        "records": np.zeros(20_000, [("x", "i4"), ("y", "f8")]),
        "fortran": np.asfortranarray(np.arange(90_000.0).reshape(300, 300)),
        "empty": np.empty((0, 5)),
        "same": None,
    }
    obj["same"] = obj["fortran"]
    request = comm.isend(obj, 1 - comm.rank)
    got = comm.recv(None, 1 - comm.rank)
    request.wait()
    assert [float(a[0]) for a in got["tiny"]] == list(range(1000))
    for name in ("dates", "records", "fortran", "empty"):
        assert got[name].dtype == obj[name].dtype and (got[name] == obj[name]).all()
        assert got[name].shape == obj[name].shape
    assert got["fortran"].flags.f_contiguous and got["same"] is got["fortran"]
    assert got["objects"].tolist() == obj["objects"].tolist()
    assert all((a == b).all() for a, b in zip(got["ragged"], ragged, strict=True))


def case_read_only_memory(comm):
    """R05: bytes, a read-only mapping and an array mapped read-only from a file can be sent."""
    with mmap.mmap(-1, 3 * MIB) as writable:
        writable[:] = bytes(range(256)) * (3 * MIB // 256)
        contents = bytes(writable)
    path = f"mapped{comm.rank}.npy"
    np.save(path, np.frombuffer(contents, np.uint8))
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    loaded = np.load(path, mmap_mode="r")
    other = 1 - comm.rank
    for sent, wanted in ((contents, contents), (mapped, bytes(mapped)), (loaded, contents),
                         (contents[:100], contents[:100])):
        room = np.zeros(len(wanted), np.uint8)
        request = comm.Irecv(room, other)
        comm.Send(sent, other)
        request.Wait()
        assert bytes(room) == wanted
    with raises(MPI.Exception, "read-only"):
        comm.Recv(contents, other)


def case_memory_dropped_and_refilled(comm):
    """R13: pages dropped by madvise and filled anew are sent with their new contents."""
    area = mmap.mmap(-1, 8 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array_ = np.frombuffer(area, np.uint8)
    other = 1 - comm.rank
    room = np.zeros(8 * MIB, np.uint8)
    for turn in range(1, 6):
        array_[:] = turn
        request = comm.Irecv(room, other)
        comm.Send(array_, other)
        request.Wait()
        assert (room == turn).all()
        area.madvise(mmap.MADV_DONTNEED)
        assert not array_.any()
        comm.Barrier()


def case_strided_arrays_are_refused(comm):
    """Arrays that are not contiguous get a clear error, and nothing is sent (issue)."""
    with raises(MPI.Exception, "contiguous"):
        comm.Send(np.arange(10)[::2], 1 - comm.rank)
    comm.Barrier()
    assert not comm.Iprobe()


def case_every_plain_type(comm):
    """Arrays of every plain dtype keep type and value; counts are in elements (issue)."""
    other = 1 - comm.rank
    for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?":
        data = np.arange(50).astype(code)
        room = np.zeros_like(data)
        request = comm.Irecv(room, other)
        comm.Send([data, 50], other)
        status = MPI.Status()
        request.Wait(status)
        assert (room == data).all() and status.Get_count() == data.nbytes, code


def case_sizes_from_nothing_to_large(comm):
    """Sizes around every protocol's edge, both sides first, late and early receives."""
    draw = random.Random(9)
    sizes = sorted({0, 1, *(max(0, (1 << b) + d) for b in range(6, 24) for d in (-1, 0, 1, 17))})
    for size in sizes:
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        room = np.zeros(size, np.uint8)
        late = draw.random() < 0.5
        if comm.rank == 1:
            if late:
                time.sleep(0.001)
            comm.Send(data, 0, tag=2)
        else:
            if not late:
                time.sleep(0.001)
            comm.Recv(room, 1, 2)
            assert (room == data).all(), size


run(globals())
