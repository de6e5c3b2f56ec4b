# cython: language_level=3
"""Messages of a process to itself.  Under the lock; *call* only: copies may be long."""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport call_t, engine_t, op_t

# Send to this process.  0: complete, no operation; 1: `out` waits for its
# receive; a negative op_error.
cdef int loop_send(call_t *call, uint32_t context, int32_t tag, void *data, uint64_t length,
                   bint sync, int content, op_t **out) noexcept nogil

cdef protocol_t *loopback_protocol() noexcept nogil
