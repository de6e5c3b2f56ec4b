# cython: language_level=3
"""What a failure says of its peer.  Under the lock; step-safe."""
from libc.stdint cimport int32_t

from pyrdv.engine.state cimport engine_t, op_t, peer_t

# A post to `p` failed for good, or a transfer with it.  Returns OP_PEER_LOST.
cdef int32_t peer_fails(engine_t *e, peer_t *p) noexcept nogil
# `op` ends with OP_PEER_LOST.
cdef void op_fails(engine_t *e, const op_t *op) noexcept nogil
