# cython: language_level=3
"""How RTRs fared, per envelope, over a whole run; and what a former run says.  Under the lock."""
from libc.stdint cimport int32_t, uint32_t

from pyrdv.engine.state cimport call_t, engine_t, op_t, peer_t, usage_t
from pyrdv.engine.wire cimport header_t

# What is known of an envelope, or NULL.  It stays there until the next `usage_make`.
cdef usage_t *usage_find(engine_t *e, uint32_t context, uint32_t peer, int32_t tag) noexcept nogil
# call.  The same, and if nothing is, a new record; NULL: no memory, or too many.
cdef usage_t *usage_make(call_t *call, uint32_t context, uint32_t peer, int32_t tag) noexcept nogil

# call.  An RTR of receive `op` was sent.
cdef void history_sent(call_t *call, const op_t *op) noexcept nogil
# step.  A START came for one.
cdef void history_used(engine_t *e, const peer_t *p, const header_t *h) noexcept nogil
# call.  Did a former run find that RTRs of this envelope are useless?
cdef bint history_forbids(engine_t *e, const op_t *op) noexcept nogil

# call.  Note that they are; False: no memory.
cdef bint history_forbid(call_t *call, uint32_t context, uint32_t peer,
                         int32_t tag) noexcept nogil
cdef void history_free(engine_t *e) noexcept nogil
