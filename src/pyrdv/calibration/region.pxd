# cython: language_level=3
"""A registered buffer, for what drives a fabric without an engine."""
from pyrdv.fabrics.contract cimport Fabric, region


cdef class Region:
    cdef region which           # key 0: not registered any more
    cdef Py_buffer view
    cdef bint held
    cdef Fabric fabric
