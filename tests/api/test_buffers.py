"""What users pass as messages: addresses, sizes, types, lifetimes and refusals."""

import array
import ctypes
import gc
import mmap
import pickle
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyrdv import errors
from pyrdv.api import datatypes
from pyrdv.api.buffers import BOTTOM, IN_PLACE, parse, parse_views, span_of

PLAIN = "?bBhHiIlLqQefdgFDG"


def content(spec, **options):
    """The bytes that a message covers, and its datatype; both ways of reading it must agree."""
    address, nbytes, count, datatype, keeper = parse(spec, **options)
    other = span_of(spec, **options)
    assert other[:2] == (address, nbytes)
    assert other[2] * other[3] == nbytes
    assert count * datatype.size == nbytes
    found = ctypes.string_at(address, nbytes)
    view, again = parse_views(spec, **options)
    assert bytes(view) == found and again == datatype
    assert view.readonly is not options.get("writable", False)
    del keeper
    return found, datatype


# --- arrays ---------------------------------------------------------------------------------


OTHERS = ["M8[us]", "m8[D]", "S3", "U2", "V5", "i4,f8", ">f8", ">c8"]


@pytest.mark.parametrize("char", [*PLAIN, *OTHERS])
@pytest.mark.parametrize("writable", [False, True])
def test_plain_arrays(char, writable):
    a = np.frombuffer(bytearray(i % 251 for i in range(480)), char)
    found, datatype = content(a, writable=writable)
    assert found == a.tobytes()
    assert datatype is datatypes.from_dtype(a.dtype)
    assert parse(a)[0] == a.ctypes.data


@pytest.mark.parametrize("a", [
    np.arange(12.0).reshape(3, 4), np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(24).reshape(2, 3, 4).T, np.array(5.0), np.zeros((0, 3)), np.zeros((3, 0))[:, ::2],
    np.arange(10)[3:7], np.arange(5)[2:3][::-1], np.zeros((1, 5))[::-1],
])
def test_contiguous_arrays_in_any_order(a):
    assert content(a)[0] == a.tobytes("A")
    address, _, count, _, keeper = parse(a)
    assert keeper is a and count == a.size
    assert address == a.ctypes.data or a.size == 0


@pytest.mark.parametrize("writable", [False, True])
def test_not_contiguous(writable):
    a = np.zeros((6, 4))
    for bad in (a[:, ::2], a[::-1], a[::2].T, a.view(np.matrix)[:, 1:],
                np.broadcast_to(a[0], (2, 4)), memoryview(a)[::2], memoryview(bytearray(10))[::-1]):
        with pytest.raises(BufferError, match="contiguous|read-only") as caught:
            parse(bad, writable=writable)
        if "contiguous" in str(caught.value):
            for part in (str(bad.shape), str(bad.strides), "numpy.ascontiguousarray"):
                assert part in str(caught.value)
        assert isinstance(caught.value, errors.InvalidBufferError)


@pytest.mark.parametrize("a", [
    np.array([1, "a"], object), np.zeros(2, "i4,O"), np.zeros(2, [("a", "O", (3,))]),
] + ([np.array(["x"], np.dtypes.StringDType())] if hasattr(np.dtypes, "StringDType") else []))
def test_arrays_of_references(a):
    for spec in (a, [a, 1], [a, 1, "B"], memoryview(a) if a.dtype.char != "T" else a):
        with pytest.raises(TypeError, match="lower-case methods"):
            span_of(spec)
        with pytest.raises(TypeError, match="lower-case methods"):
            parse(spec, writable=True)


def test_read_only_array():
    a = np.arange(3, dtype="i2")
    a.flags.writeable = False
    assert content(a)[0] == a.tobytes()
    for spec in (a, [a, "h"], [a, 2, datatypes.SHORT], a.view(np.recarray)):
        with pytest.raises(BufferError, match="read-only") as caught:
            parse(spec, writable=True)
        assert "array" in str(caught.value) and "int16" in str(caught.value)
        assert "copy" in str(caught.value)


def test_subclasses_and_scalars(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5.0))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert content(mapped)[0] == np.arange(5.0).tobytes()
    with pytest.raises(BufferError, match="memmap.*read-only"):
        parse(mapped, writable=True)
    dates = np.array(["2020-01-01"], "M8[D]").view(np.matrix)
    assert content(dates)[0] == np.asarray(dates).tobytes()
    assert content(np.float64(3))[0] == np.float64(3).tobytes()
    assert content(np.float64(3))[1] is datatypes.DOUBLE


# --- other buffers --------------------------------------------------------------------------


def test_bytes_likes(tmp_path):
    assert content(b"abc") == (b"abc", datatypes.UNSIGNED_CHAR)
    assert content(b"") == (b"", datatypes.UNSIGNED_CHAR)
    assert content(bytearray(b"abc"), writable=True) == (b"abc", datatypes.UNSIGNED_CHAR)
    assert content(bytearray(), writable=True)[0] == b""
    assert content(array.array("d", [1, 2]))[1] is datatypes.DOUBLE
    assert content(array.array("l", [1, 2]), writable=True)[1] is datatypes.LONG
    assert content((ctypes.c_int * 4)(1, 2, 3, 4), writable=True)[1] is datatypes.INT
    with open(tmp_path / "f", "w+b") as file:
        file.write(b"x" * 5000)
        file.flush()
        with mmap.mmap(file.fileno(), 5000, access=mmap.ACCESS_READ) as mapped:
            assert content(mapped)[0] == b"x" * 5000
            with pytest.raises(BufferError, match=r"mmap.*read-only"):
                parse(mapped, writable=True)
        with mmap.mmap(file.fileno(), 5000) as mapped:
            assert content(mapped, writable=True)[0] == b"x" * 5000
        with pytest.raises(ValueError, match="closed"):
            parse(mapped)


def test_memoryviews_count_bytes_not_items():  # B08
    data = bytearray(np.arange(100.0).tobytes())
    flat = memoryview(data)
    for view in (flat.cast("d", (10, 10)), flat, flat.cast("d")):
        found, datatype = content(view, writable=True)
        assert found == bytes(data)
        assert datatype.size == view.itemsize
    fortran = memoryview(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert parse(fortran)[1] == 48
    with pytest.raises(BufferError, match="memoryview.*read-only.*bytearray"):
        parse(memoryview(b"abc"), writable=True)
    released = memoryview(b"abc")
    released.release()
    with pytest.raises(ValueError, match="released"):
        parse(released)


def test_bytes_for_a_receive():
    for spec in (b"abc", [b"abc", 2], [b"abc", datatypes.BYTE]):
        with pytest.raises(BufferError, match="bytes.*read-only.*bytearray"):
            parse(spec, writable=True)
        with pytest.raises(BufferError):
            span_of(spec, writable=True)


@pytest.mark.parametrize("bad", ["text", 5, {"a": 1}, object(), IN_PLACE, [[b"a", 1], 1], 1.5, len])
def test_not_a_buffer(bad):
    with pytest.raises(TypeError, match="lower-case methods"):
        span_of(bad)


def test_nothing():
    for spec in (None, BOTTOM, [None, 0], [None, 0, "d"], (None, None, "d"), [BOTTOM, 0, "i"],
                 [None, (0, 0), "i"], [None, "d"]):
        for writable in (False, True):
            assert content(spec, writable=writable)[0] == b""
            assert span_of(spec, writable=writable)[0] == 0
    for holder in (None, BOTTOM):
        with pytest.raises(ValueError, match="24 bytes, but .* holds 0"):
            parse([holder, 3, "d"])


def test_singletons():
    assert BOTTOM == 0 and IN_PLACE == -1
    assert pickle.loads(pickle.dumps(BOTTOM)) is BOTTOM
    assert pickle.loads(pickle.dumps(IN_PLACE)) is IN_PLACE
    assert (repr(BOTTOM), repr(IN_PLACE)) == ("BOTTOM", "IN_PLACE")


# --- lists ----------------------------------------------------------------------------------


A = np.arange(16.0).reshape(4, 4)


@pytest.mark.parametrize("spec, first, count, key", [
    ([A, "d"], 0, 16, "DOUBLE"), ([A, datatypes.DOUBLE], 0, 16, "DOUBLE"),
    ([A, 3], 0, 3, "DOUBLE"), ((A, 3), 0, 3, "DOUBLE"), ([A, 3, "d"], 0, 3, "DOUBLE"),
    ([A, (3, 2), "d"], 2, 3, "DOUBLE"), ([A, [3, 2]], 2, 3, "DOUBLE"),
    ([A, 3, 2, "d"], 2, 3, "DOUBLE"), ([A, None, "d"], 0, 16, "DOUBLE"),
    ([A, (None, 5), "d"], 5, 11, "DOUBLE"), ([A, None, 5, None], 5, 11, "DOUBLE"),
    ([A, None, None], 0, 16, "DOUBLE"), ([A, np.int64(2), "f8"], 0, 2, "DOUBLE"),
    ([A, np.dtype("d")], 0, 16, "DOUBLE"), ([A, 2, np.float64], 0, 2, "DOUBLE"),
    ([A, 16, "d"], 0, 16, "DOUBLE"), ([A, 0, "d"], 0, 0, "DOUBLE"), ([A, (0, 16)], 16, 0, "DOUBLE"),
    ([A, True], 0, 1, "DOUBLE"), ([A, "F"], 0, 16, "C_COMPLEX"), ([A, (None, 16)], 16, 0, "DOUBLE"),
])
def test_lists(spec, first, count, key):
    for writable in (False, True):
        address, nbytes, elements, datatype, keeper = parse(spec, writable=writable)
        assert elements == count and datatype is datatypes.PREDEFINED[key]
        assert address == A.ctypes.data + first * 8
        assert nbytes == count * 8
        assert span_of(spec, writable=writable) == (address, nbytes, count, 8, keeper)


def test_a_type_reads_the_bytes_anew():
    assert parse([A, "i"])[2] == 32
    assert parse([A, datatypes.BYTE])[2] == 128
    assert parse([A, (1, 3), "i"])[0] == A.ctypes.data + 12
    assert content([bytearray(b"abcdef"), (2, 1), "h"]) == (b"cdef", datatypes.SHORT)
    structured = np.zeros(3, "i4,f8")
    assert parse(structured)[2:4] == (36, datatypes.BYTE)
    assert span_of(structured)[2:4] == (3, 12)


@pytest.mark.parametrize("spec, kind, text", [
    ([A, 17, "d"], ValueError, "17 elements of MPI_DOUBLE .* 136 bytes, but ndarray holds 128"),
    ([A, 17], ValueError, "136 bytes, but ndarray holds 128"),
    ([A, (15, 2), "d"], ValueError, "behind a displacement of 2 need 136 bytes"),
    ([A, (None, 17), "d"], ValueError, "displacement of 17 need 136 bytes"),
    ([A, 2**62, "d"], ValueError, "holds 128"), ([A, (2**63 - 1, 1), "B"], ValueError, "holds 128"),
    ([A, (1, 2**63 - 1), "B"], ValueError, "holds 128"),
    ([A, 2**63, "d"], ValueError, "count .* address space"),
    ([A, -1, "d"], ValueError, "count of a message is -1"),
    ([A, (3, -2), "d"], ValueError, "displacement of a message is -2"),
    ([A, 1.5, "d"], TypeError, "count .* not float 1.5"),
    ([A, (1, "x"), "d"], TypeError, "displacement .* not str 'x'"),
    ([A, "zz"], ValueError, "'zz'"), ([A, 1, 7], TypeError, "not int"),
    ([A, 3, datatypes.DATATYPE_NULL], ValueError, "DATATYPE_NULL"),
    ([A, 3, np.dtype("O")], TypeError, "references"),
    ([], ValueError, "2 to 4 items.*not 0"), ([A], ValueError, "2 to 4 items.*not 1"),
    ([A, 1, 2, "d", 5], ValueError, "not 5"), ([A, (), "d"], ValueError, "pair"),
    ([A, (1, 2, 3)], ValueError, "pair"), ([A, (1, 2), 3, "d"], ValueError, "pair"),
    ([b"123456789", "d"], ValueError, "9 bytes, not a multiple of the 8 bytes of MPI_DOUBLE"),
    ([b"12345678", (None, 1), "h", ], None, ""),
])
def test_bad_lists(spec, kind, text):
    if kind is None:
        assert content(spec)[0] == b"345678"
        return
    with pytest.raises(kind, match=text) as caught:
        parse(spec)
    assert isinstance(caught.value, errors.Error)
    with pytest.raises(kind, match=text):
        span_of(spec)


@given(st.integers(0, 40), st.one_of(st.none(), st.integers(-2, 50)),
       st.one_of(st.none(), st.integers(-2, 50)), st.sampled_from(["B", "h", "i", "d"]))
def test_never_outside_the_buffer(size, count, displ, code):
    buffer = bytearray(range(size))
    itemsize = np.dtype(code).itemsize
    start = (displ or 0) * itemsize
    wanted = None if count is None else count * itemsize
    fits = start >= 0 and start <= size and (
        (size - start) % itemsize == 0 if wanted is None else 0 <= wanted <= size - start
    )
    spec = [buffer, count, displ, code]
    if not fits:
        with pytest.raises(errors.CountError):
            parse(spec, writable=True)
    else:
        end = size if wanted is None else start + wanted
        assert content(spec, writable=True)[0] == bytes(buffer[start:end])
    buffer.append(0)        # nothing holds it any more


# --- lifetimes ------------------------------------------------------------------------------


def test_the_keeper_pins_the_buffer():
    buffer = bytearray(100)
    keeper = parse(buffer, writable=True)[-1]
    with pytest.raises(BufferError):
        buffer.extend(b"x")
    del keeper
    buffer.extend(b"x")

    class Array(np.ndarray):
        pass

    a = np.zeros(4).view(Array)
    alive = weakref.ref(a)
    keeper = parse([a, 2, "d"])[-1]
    del a
    assert alive() is not None
    del keeper
    gc.collect()
    assert alive() is None


def test_exports_are_released_also_after_errors():  # B10
    buffer = bytearray(64)
    view = memoryview(buffer)
    before = sys.getrefcount(buffer)
    for _ in range(10_000):
        for spec in (buffer, view, [buffer, 8, "d"], [buffer, (2, 1)]):
            parse(spec, writable=True)
        for bad in ([buffer, 9, "d"], [buffer, -1], [buffer, "zz"], [buffer, (None, 5), "g"],
                    memoryview(buffer)[::2], memoryview(buffer).toreadonly()):
            with pytest.raises((ValueError, BufferError)):
                parse(bad, writable=True)
    del spec, bad
    assert sys.getrefcount(buffer) == before
    view.release()
    buffer.extend(b"more")
    assert len(buffer) == 68


def test_views_hold_their_memory():
    view, _ = parse_views([np.arange(4.0), (2, 1), "d"])
    gc.collect()
    assert view.cast("d").tolist() == [1, 2]
    view, _ = parse_views(bytearray(b"abc"), writable=True)
    view[0] = 65
    assert bytes(view) == b"Abc"


def test_more_than_32_bits():
    noreserve = getattr(mmap, "MAP_NORESERVE", 0x4000)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | noreserve
    with mmap.mmap(-1, 5 << 30, flags=flags) as m:
        assert parse(m)[1:3] == (5 << 30, 5 << 30)
        address, nbytes, count = parse([m, (1 << 28, 1 << 28), "d"], writable=True)[:3]
        assert (nbytes, count) == (1 << 31, 1 << 28)
        assert address == parse(m)[0] + (1 << 31)
        with pytest.raises(ValueError, match=str(5 << 30)):
            parse([m, (5 << 30) + 1, "B"])
