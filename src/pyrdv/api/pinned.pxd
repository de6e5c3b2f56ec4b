# cython: language_level=3
"""Memory that stays registered because somebody said so.

Contract: needs the GIL; never blocks.
"""
from pyrdv.engine.engine cimport Engine
from pyrdv.memory.mappings cimport DEVICES_MAX, mapping_t, owner_t


cdef class Pinned:
    """What `pyrdv.register` returns."""
    cdef Engine engine              # None once released
    cdef object keeper
    cdef readonly size_t nbytes
    cdef owner_t *owner             # named
    cdef bint ranged                # it is a range of ours
    cdef mapping_t *mappings[DEVICES_MAX]
