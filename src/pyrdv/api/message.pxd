# cython: language_level=3
"""Messages that a matched probe took out of the queue."""
from pyrdv.api.core cimport CommBase
from pyrdv.engine.state cimport message_t


cdef class Message:
    cdef CommBase comm
    cdef Message origin             # the message whose second handle this is; None
    cdef message_t *m               # NULL: used up, or no message
    cdef readonly bint no_proc      # from PROC_NULL
    cdef bint constant              # MESSAGE_NO_PROC itself, which is never used up
    cdef readonly int source
    cdef readonly int tag
    cdef readonly unsigned long long nbytes
    # Take the empty message of PROC_NULL, if it is that.
    cdef bint take_nothing(self)
    cdef int take(self, message_t **m) except -1
