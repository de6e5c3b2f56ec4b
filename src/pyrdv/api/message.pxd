# cython: language_level=3
"""Messages that a matched probe took out of the queue."""
from pyrdv.api.core cimport CommBase
from pyrdv.engine.state cimport message_t


cdef class Message:
    cdef CommBase comm
    cdef message_t *m               # NULL: used up, or no message
    cdef readonly bint no_proc      # from PROC_NULL
    cdef readonly int source
    cdef readonly int tag
    cdef readonly unsigned long long nbytes
    cdef int take(self, message_t **m) except -1
