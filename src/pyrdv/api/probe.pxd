# cython: language_level=3
"""Probes, and buffered sends."""
from pyrdv.api.p2p cimport BufferMessages
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.state cimport message_t


cdef class ProbedMessages(BufferMessages):
    cdef bint no_process(self, long long source, long long tag, Status status) except -1
    cdef int wait_for(self, long long source, long long tag, Status status,
                      message_t **taken) except -1
    # Start the send of a copy (`how`: send_how) that counts against an attached buffer.
    cdef Request post_buffered(self, object buf, long long dest, long long tag, int how)
    cdef int expect(self, long long source) except -1
    cdef bint glance(self, long long source, long long tag, Status status,
                     message_t **taken) except -1
