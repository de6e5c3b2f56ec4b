# cython: language_level=3
"""Offers: the RTRs that a sender keeps.  Under the lock; step-safe."""
from libc.stdint cimport uint32_t

from pyrdv.engine.state cimport engine_t, offer_t, peer_t
from pyrdv.engine.wire cimport rtr_t

# Keep `rtr` for the send that comes after `skip` others of its envelope; False: no room.
cdef bint offer_keep(engine_t *e, peer_t *p, const rtr_t *rtr, uint32_t skip) noexcept nogil
# Forget the offer that `link` points to.
cdef void offer_drop(engine_t *e, peer_t *p, offer_t **link) noexcept nogil
# Forget every offer of `p`; returns how many there were.
cdef uint32_t offers_clear(engine_t *e, peer_t *p) noexcept nogil
