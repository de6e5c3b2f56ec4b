# cython: language_level=3
"""Requests: one operation, and whatever keeps its buffer alive (R3)."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pyrdv.api.core cimport CommBase
from pyrdv.api.status cimport Status
from pyrdv.engine.state cimport op_t


cdef class Request:
    cdef CommBase comm              # None: the null request
    cdef Request origin             # the request that this one stands for; None
    cdef op_t *op                   # NULL: complete, results below
    cdef uint32_t generation
    cdef object keeper              # keeps the buffer alive while op is under way
    cdef bint active                # not yet reported to the user
    cdef bint receives
    cdef uint8_t wanted             # receives: packet_content that it is for
    cdef int source                 # results, in ranks of the communicator
    cdef int tag
    cdef int error                  # op_error
    cdef uint64_t total
    cdef uint64_t room
    # Adopt a freshly posted operation, or (NULL) note an immediate completion.
    cdef void start(self, CommBase comm, op_t *op, object keeper, bint receives) noexcept
    # Copy the results of a complete operation and release it.
    cdef int settle(self) except -1
    # Whether there is something to wait for; not for null and inactive persistent requests.
    cdef bint pending(self)
    # Whether it is REQUEST_NULL.  An inactive persistent request is not.
    cdef bint null(self)
    # The request behind all handles of it.
    cdef Request root(self)
    # What a status says of it: complete or null.
    cdef void describe(self, Status status) noexcept
    # One look, one turn: complete?
    cdef bint poll(self) except -1
    # Wait until complete.  An exception of a signal handler leaves it as it was.
    cdef int block(self) except -1
    # Complete: fill `status`, become null, raise what went wrong.
    cdef int report(self, Status status) except -1
    # Become null without having been complete: who awaits it is told.
    cdef void retire(self) noexcept
    # What lower-case wait() returns, after report.
    cdef object result(self)
