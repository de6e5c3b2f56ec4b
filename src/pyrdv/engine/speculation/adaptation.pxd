# cython: language_level=3
"""Whether speculation pays, per envelope.  Under the lock; step-safe."""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from pyrdv.engine.state cimport engine_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t

# The sender's side.  An RTR of this envelope was used, or dropped.
cdef void rtr_judged(engine_t *e, peer_t *p, uint32_t context, int32_t tag,
                     bint used) noexcept nogil
# What the next announcement of this envelope has to tell: PACKET_STOP, PACKET_RESUME or 0.
cdef uint8_t advice(engine_t *e, peer_t *p, uint32_t context, int32_t tag) noexcept nogil
# It was posted.
cdef void advice_told(engine_t *e, peer_t *p, const header_t *h) noexcept nogil

# The receiver's side.  An announcement brought an advice.
cdef void advice_heard(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
# Does posted receive `op` keep its RTR back because its envelope was stopped?
cdef bint withheld(engine_t *e, const op_t *op) noexcept nogil
