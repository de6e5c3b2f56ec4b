# cython: language_level=3
"""Persistent collective operations: a schedule that is built once and started often."""
from pyrdv.api.persistent cimport Prequest
from pyrdv.api.schedule cimport Schedule


cdef class CollectivePrequest(Prequest):
    cdef Schedule schedule
