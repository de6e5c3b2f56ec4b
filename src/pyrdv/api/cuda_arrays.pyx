# cython: language_level=3, nonecheck=True
"""Memory of objects that offer only ``__cuda_array_interface__``.

The interface names an address and a layout, but not where the memory lies. Managed and page-locked
memory, and arrays of simulators, are the CPU's too; the memory of a device is not. So the first and
the last byte are handed to the kernel, which refuses an address that this process cannot read.
"""

import os

import numpy as np

cimport cython
from posix.unistd cimport write

from pyrdv.errors import InvalidBufferError


@cython.embedsignature(False)
class _Described:
    """What NumPy asks for an array: where the memory is, and who keeps it."""

    def __init__(self, interface, owner):
        self.__array_interface__ = interface
        self.owner = owner


cdef bint readable(size_t address, size_t nbytes) except -1:
    cdef int fd
    cdef bint good
    ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fd = ends[1]
        good = (write(fd, <void *> address, 1) == 1
                and write(fd, <void *> (address + nbytes - 1), 1) == 1)
    finally:
        os.close(ends[0])
        os.close(ends[1])
    return good


cdef object host_array(object obj):
    given = getattr(obj, "__cuda_array_interface__", None)
    if given is None:
        return None
    name = type(obj).__name__
    if given.get("mask") is not None:
        raise InvalidBufferError(f"{name} is masked; send its data and its mask by themselves")
    interface = {key: given[key] for key in ("shape", "typestr", "strides") if key in given}
    address, read_only = given["data"]
    if 0 in interface["shape"]:
        return np.empty(interface["shape"], interface["typestr"])
    array = np.asarray(_Described({**interface, "data": (address, read_only), "version": 3}, obj))
    low, high = np.lib.array_utils.byte_bounds(array) if hasattr(np.lib, "array_utils") \
        else np.byte_bounds(array)
    if not readable(low, high - low):
        raise InvalidBufferError(
            f"{name} at {address:#x} lies in memory that the CPU cannot reach, such as a device's; "
            "copy it to the host first")
    return array
