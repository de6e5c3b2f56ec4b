"""Messages of one block per rank."""

import mmap

import numpy as np
import pytest

from pyrdv import errors
from pyrdv.api import datatypes
from pyrdv.api.vectors import parse_vector

A = np.arange(10, dtype="i4")


@pytest.mark.parametrize("spec, counts, displs", [
    (A, [4, 3, 3], [0, 4, 7]), ([A, "i"], [4, 3, 3], [0, 4, 7]), ([A, None], [4, 3, 3], [0, 4, 7]),
    ([A, [1, 2, 3]], [1, 2, 3], [0, 1, 3]), ([A, [1, 2, 3], "i"], [1, 2, 3], [0, 1, 3]),
    ([A, ([1, 2, 3], [7, 0, 3])], [1, 2, 3], [7, 0, 3]),
    ([A, ([1, 2, 3], [7, 0, 3]), "i"], [1, 2, 3], [7, 0, 3]),
    ([A, (1, 2, 3), (7, 0, 3), "i"], [1, 2, 3], [7, 0, 3]),
    ([A, 2, "i"], [2, 2, 2], [0, 2, 4]), ([A, (2, 4)], [2, 2, 2], [0, 4, 8]),
    ([A, np.array([1, 2, 3]), np.array([7, 0, 3]), datatypes.INT], [1, 2, 3], [7, 0, 3]),
    ([A, ([0, 5, 0], None)], [0, 5, 0], [0, 0, 5]),
    ([A, ([0, 0, 1], [99, 5, 9])], [0, 0, 1], [99, 5, 9]),
    ([None, [0, 0, 0], "i"], [0, 0, 0], [0, 0, 0]), (None, [0, 0, 0], [0, 0, 0]),
])
def test_forms(spec, counts, displs):
    address, nbytes, found, at, datatype, _ = parse_vector(spec, 3)
    assert (found, at) == (counts, displs)
    assert all(type(value) is int for value in found + at)
    if spec is not None and not (isinstance(spec, list) and spec[0] is None):
        assert (address, nbytes, datatype.size) == (A.ctypes.data, 40, 4)


@pytest.mark.parametrize("spec, kind, text", [
    ([A, [1, 2]], ValueError, "2 counts for 3 ranks"),
    ([A, ([1, 2, 3], [0])], ValueError, "1 displacements for 3 ranks"),
    ([A, [4, 4, 4]], ValueError, "block 2 .* ends at byte 48, but ndarray holds 40"),
    ([A, ([1, 1, 1], [0, 10, 0])], ValueError, "block 1"),
    ([A, [1, -1, 1]], ValueError, "block 1 has the count -1"),
    ([A, ([1, 1, 1], [0, -1, 0])], ValueError, "displacement -1"),
    ([A, [1, 1.5, 1]], TypeError, "1.5"), ([A, (1, 2, 3)], ValueError, "as a list"),
    ([A, "zz"], ValueError, "zz"), ([A], ValueError, "2 to 4 items"),
    (bytearray(2), None, ""), ([bytearray(7), "h"], ValueError, "7 bytes"),
    ("text", TypeError, "str"),
])
def test_refusals(spec, kind, text):
    if kind is None:
        assert parse_vector(spec, 3)[2] == [1, 1, 0]
        return
    with pytest.raises(kind, match=text) as caught:
        parse_vector(spec, 3)
    assert isinstance(caught.value, errors.Error)


def test_read_only():
    with pytest.raises(BufferError, match="read-only"):
        parse_vector([b"abc", [1, 1, 1]], 3, writable=True)
    assert parse_vector([b"abc", [1, 1, 1]], 3)[1] == 3
    with pytest.raises(errors.CountError):
        parse_vector(A, 0)


def test_displacements_beyond_32_bits():  # B03
    noreserve = getattr(mmap, "MAP_NORESERVE", 0x4000)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | noreserve
    with mmap.mmap(-1, (1 << 31) + 4096, flags=flags) as m:
        found = parse_vector([m, [10, 10], [0, (1 << 31) + 100], "b"], 2, writable=True)
        assert found[3] == [0, (1 << 31) + 100]
        del found
