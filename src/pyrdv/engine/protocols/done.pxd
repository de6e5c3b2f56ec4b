# cython: language_level=3
"""DONE: tell a sender that its message was taken.  Step-safe, under the lock."""
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport engine_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t

# Fill the DONE header that answers the announcement matched by receive `op`.
cdef void done_fill(engine_t *e, peer_t *p, op_t *op, header_t *h) noexcept nogil
# Receive `op` has its data (or none is to come): post DONE and complete it, or
# leave it in the peer's ready queue.
cdef void done_start(engine_t *e, peer_t *p, op_t *op) noexcept nogil

cdef protocol_t *done_protocol() noexcept nogil
