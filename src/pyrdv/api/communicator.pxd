# cython: language_level=3
"""The communicator."""
from pyrdv.api.core cimport CommBase


cdef class Comm(CommBase):
    cdef Comm inside                # the view for collective operations, made on first use
