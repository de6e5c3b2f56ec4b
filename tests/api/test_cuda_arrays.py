"""Objects that offer only ``__cuda_array_interface__``."""

import ctypes
import mmap

import numpy as np
import pytest

from pyrdv.api.buffers import parse
from pyrdv.errors import InvalidBufferError

PAGE = mmap.PAGESIZE


class Array:
    """An array of another library, somewhere in memory."""

    def __init__(self, address, shape=(4,), read_only=False, **more):
        self.__cuda_array_interface__ = {
            "version": 3, "data": (address, read_only), "typestr": "<f8", "shape": shape, **more}


def test_memory_of_the_host_is_used_in_place():
    real = np.arange(4.0)
    address, nbytes, count, datatype, _ = parse(Array(real.ctypes.data), writable=True)
    assert (address, nbytes, count, datatype.Get_name()) == (
        real.ctypes.data, 32, 4, "MPI_DOUBLE")


def test_memory_of_a_device_is_refused():
    """The address is one that no access of the CPU may touch, as those of devices are."""
    area = mmap.mmap(-1, 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + PAGE), PAGE, 0) == 0
    with pytest.raises(InvalidBufferError, match="cannot reach"):
        parse(Array(address + PAGE))
    # Its last byte decides as well as its first.
    with pytest.raises(InvalidBufferError, match="cannot reach"):
        parse(Array(address + PAGE - 8))
    assert parse(Array(address + PAGE - 32))[1] == 32


def test_what_cannot_be_sent_is_refused():
    real = np.arange(8.0)
    with pytest.raises(InvalidBufferError, match="read-only"):
        parse(Array(real.ctypes.data, read_only=True), writable=True)
    with pytest.raises(InvalidBufferError, match="not contiguous"):
        parse(Array(real.ctypes.data, strides=(16,)))
    with pytest.raises(InvalidBufferError, match="masked"):
        parse(Array(real.ctypes.data, mask=real))
    assert parse(Array(0, shape=(0,)))[1] == 0
