# cython: language_level=3
"""The owners of registered memory, watched: an engine's cache of registrations as an object.

Methods need the GIL and take the engine's lock themselves; they may run any Python code before and
after, never under it (C1).  The invariants C1 to C7 stand in mappings.pxd.
"""
from libc.stdint cimport uint64_t

from pyrdv.memory.mappings cimport cache_t, owner_t


cdef class Registrations:
    """Owner of one ``cache_t``; an engine's."""
    cdef cache_t *c
    cdef readonly bint everywhere
    cdef unsigned int forks
    # What is known of `array`, whose own memory is `length` bytes at `address`; made if need be.
    # NULL: it cannot be kept.  The caller holds the array, and keeps the GIL until it has named it.
    cdef owner_t *owner(self, object array, void *address, uint64_t length) except? NULL
    # Forget it; whether anything was kept.
    cdef bint forget(self, object array) except -1
    # Give everything back; the devices are about to be closed.
    cdef int end(self) except -1
    # In a forked child: give nothing back.
    cdef void abandon(self) noexcept
    cdef void owner_ended(self, owner_t *owner) noexcept
