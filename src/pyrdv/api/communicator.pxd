# cython: language_level=3
"""Communicators as users see them."""
from pyrdv.api.object_messages cimport ObjectMessages


cdef class Comm(ObjectMessages):
    cdef Comm inside                # the view for collective operations, made on first use
    # Raises on a null handle.
    cdef int exists(self) except -1
