# cython: language_level=3
"""Rendezvous by write: RTR, START, WRITE, FIN.  Under the lock; step-safe unless marked *call*."""
from libc.stdint cimport uint64_t

from pyrdv.engine.state cimport engine_t, offer_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t, rtr_t
from pyrdv.fabrics.contract cimport completion

# Does a receive (send) of `length` bytes with `p` probably become a rendezvous?
cdef bint predicted(engine_t *e, peer_t *p, uint64_t length) noexcept nogil
# call.  Offer the buffer of posted receive `op` to its peer, if that may help.
cdef void rtr_offer(engine_t *e, op_t *op) noexcept nogil
# An RTR arrived.  False: it breaks the rules (R8).
cdef bint rtr_arrived(engine_t *e, peer_t *p, const rtr_t *rtr) noexcept nogil
# The offer that registered send `op`, whose turn it is, may use; or NULL.
cdef offer_t *offer_for(engine_t *e, peer_t *p, const op_t *op) noexcept nogil
# Announce `op` by START and write its data; a fabric_status.
cdef int start_post(engine_t *e, peer_t *p, op_t *op, const offer_t *offer) noexcept nogil
# A START (FIN) arrived.  False: it breaks the rules (R8).
cdef bint start_arrived(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
cdef bint fin_arrived(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
# Post the next WRITE of a ready send, or the FIN that tells of its failure; a fabric_status.
cdef int put_serve(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# A WRITE ended.
cdef void put_ended(engine_t *e, const completion *c) noexcept nogil

# call.  Is an RTR out that a cancel of posted receive `op` would make wrong?
cdef bint revoke_needed(const op_t *op) noexcept nogil
# call.  Cancel posted receive `op` once its peer has no RTR of ours any more.
cdef void revoke_start(engine_t *e, op_t *op) noexcept nogil
# Post the REVOKE or REVOKED that `p` is still to get.
cdef void revoke_serve(engine_t *e, peer_t *p) noexcept nogil
cdef bint revoke_arrived(engine_t *e, peer_t *p) noexcept nogil
cdef bint revoked_arrived(engine_t *e, peer_t *p) noexcept nogil
# call.  REVOKED came: cancel what waited for it, offer the rest anew.
cdef void revoke_act(engine_t *e, peer_t *p) noexcept nogil
