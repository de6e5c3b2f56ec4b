# cython: language_level=3
"""Point-to-point messages of buffers."""
from libc.stdint cimport uint32_t

from pyrdv.api.buffers cimport span
from pyrdv.api.core cimport CommBase
from pyrdv.api.message cimport Message
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.state cimport message_t, op_t


cdef class BufferMessages(CommBase):
    # Start a send (`how`: send_how); the short forms of the checks of Isend.
    cdef Request post_send(self, object buf, long long dest, long long tag, int how)
    # Before a call starts `count` operations, sends to `dest` among them: raise what they lack.
    # Whether the connection is still under way.
    cdef bint prepare_several(self, long long dest, uint32_t count) except? True
    cdef int finish_send(self, Request request, long long dest, long long tag) except -1
    cdef op_t *post_recv(self, object buf, long long source, long long tag, bint waits,
                         span *at, void **keeper) except? NULL
    cdef Request request_of(self, op_t *op, void *keeper)
    # Start a receive whose request, of any class, is `request`.
    cdef int receive(self, Request request, object buf, long long source, long long tag) except -1
    # The Message of a taken `m`; NULL: from PROC_NULL.
    cdef Message matched(self, message_t *m)
    # Look once for a message; fills `status`; `taken` != NULL: take it out of the queue.
    cdef bint look(self, long long source, long long tag, Status status, message_t **taken)
