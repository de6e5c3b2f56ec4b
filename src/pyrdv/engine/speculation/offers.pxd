# cython: language_level=3
"""Offers: the RTRs that a sender keeps.  Under the lock; step-safe."""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.state cimport engine_t, offer_t, peer_t
from pyrdv.engine.wire cimport rtr_t

cdef struct offers_t:           # of one peer; what a policy keeps of it begins with this
    offer_t *first              # oldest last
    uint32_t count


cdef inline offers_t *offers_of(const peer_t *p) noexcept nogil:
    return <offers_t *> p.pairing


# Keep `rtr` for the send that comes after `skip` others of its envelope; False: no room.
cdef bint offer_keep(engine_t *e, peer_t *p, const rtr_t *rtr, uint32_t skip) noexcept nogil
# Forget the offer that `link` points to.
cdef void offer_drop(engine_t *e, peer_t *p, offer_t **link) noexcept nogil
# An RTR of this envelope was of no use: note it in the trace.
cdef void offer_lost(engine_t *e, peer_t *p, uint32_t context, int32_t tag) noexcept nogil
# Forget every offer of `p`; returns how many there were.
cdef uint32_t offers_clear(engine_t *e, peer_t *p) noexcept nogil
# Mix them into a digest.
cdef void offers_hash(const peer_t *p, uint64_t *h) noexcept nogil
