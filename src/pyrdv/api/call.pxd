# cython: language_level=3
"""The messages of one collective call.

Contract: needs the GIL; `wait` and what calls it waits without it.
"""
from libc.stdint cimport int32_t

from pyrdv.api.communicator cimport Comm
from pyrdv.api.request cimport Request
from pyrdv.progress.waiting cimport bell_t


cdef enum:
    ALARM_TAG = 0x7FFFFFFF      # of alarms, in the collective context; no call has it


cdef class Call:
    cdef readonly Comm view         # of the communicator's collective context
    cdef readonly int rank
    cdef readonly int size
    cdef readonly int kind
    cdef readonly int number
    cdef readonly int tag           # of all its messages
    cdef list requests              # what finish() waits for, and withdraw() takes back
    cdef Request collecting         # a receive into memory of the library; None
    cdef bint over
    cdef bell_t bell
    # Wait once: True when `request` is complete, False when an alarm is to be read.
    cdef bint attend(self, Request request) except -1
    # Wait until it is complete, whatever alarms concern other calls, and raise what went wrong.
    cdef int wait(self, Request request) except -1
    cdef int check(self, Request request) except -1
    # Wait until nobody can write into the buffer of a receive any more.
    cdef int let_land(self, Request request, has_given_up) except -1
