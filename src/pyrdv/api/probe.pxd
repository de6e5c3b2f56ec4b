# cython: language_level=3
"""Probes, and buffered sends."""
from pyrdv.api.p2p cimport BufferMessages
from pyrdv.api.status cimport Status
from pyrdv.engine.state cimport message_t


cdef class ProbedMessages(BufferMessages):
    cdef bint no_process(self, long long source, long long tag, Status status) except -1
    cdef int wait_for(self, long long source, long long tag, Status status,
                      message_t **taken) except -1
    cdef int expect(self, long long source) except -1
    cdef bint glance(self, long long source, long long tag, Status status,
                     message_t **taken) except -1
