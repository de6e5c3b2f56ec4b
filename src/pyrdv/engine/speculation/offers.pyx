# cython: language_level=3
"""Offers: the RTRs that a sender keeps until the send they are meant for.

They come from a pool that calls refill (``op.pools_reserve``).  An RTR for which the pool
or the peer's share of it has no room is dropped, and its message takes the way over RTS.
"""
from libc.stdint cimport uint32_t

from pyrdv.engine.state cimport OFFERS_MAX, engine_t, offer_t, peer_t
from pyrdv.engine.wire cimport rtr_t


cdef bint offer_keep(engine_t *e, peer_t *p, const rtr_t *rtr, uint32_t skip) noexcept nogil:
    cdef offer_t *offer = e.offer_free
    if offer == NULL or p.offer_count >= OFFERS_MAX:
        return False
    e.offer_free = offer.next
    e.offer_free_count -= 1
    offer.cookie = rtr.header.cookie
    offer.address = rtr.address
    offer.key = rtr.key
    offer.capacity = rtr.header.length
    offer.context = rtr.header.context
    offer.tag = rtr.header.tag
    offer.skip = skip
    offer.next = p.offers
    p.offers = offer
    p.offer_count += 1
    return True


cdef void offer_drop(engine_t *e, peer_t *p, offer_t **link) noexcept nogil:
    cdef offer_t *offer = link[0]
    link[0] = offer.next
    offer.next = e.offer_free
    e.offer_free = offer
    e.offer_free_count += 1
    p.offer_count -= 1


cdef uint32_t offers_clear(engine_t *e, peer_t *p) noexcept nogil:
    cdef uint32_t count = p.offer_count
    while p.offers != NULL:
        offer_drop(e, p, &p.offers)
    return count
