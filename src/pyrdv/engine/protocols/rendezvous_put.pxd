# cython: language_level=3
"""Rendezvous by write: RTR, START, WRITE, FIN.  Under the lock; step-safe unless marked *call*."""
from libc.stdint cimport uint64_t

from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.peer cimport eager_limit
from pyrdv.engine.state cimport call_t, engine_t, op_t, peer_t

# Were RTRs of this side taken back, and the peer has not answered yet?
cdef bint revoking(const peer_t *p) noexcept nogil
# call.  Offer the buffer of posted receive `op` to its peer, if that may help.
cdef void rtr_offer(call_t *call, op_t *op) noexcept nogil
# call.  Is an RTR out that a cancel of posted receive `op` would make wrong?
cdef bint revoke_needed(const op_t *op) noexcept nogil
# call.  Cancel posted receive `op` once its peer has no RTR of ours any more.
cdef void revoke_start(engine_t *e, op_t *op) noexcept nogil

cdef protocol_t *put_protocol() noexcept nogil


# Does a receive (send) of `length` bytes with `p` probably become a rendezvous?
cdef inline bint predicted(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    return e.policy.offers and p.fabric != NULL and length > eager_limit(e, p.fabric)
