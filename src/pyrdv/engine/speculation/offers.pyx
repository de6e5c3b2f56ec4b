# cython: language_level=3
"""Offers: the RTRs that a sender keeps until the send they are meant for.

They come from a pool that calls refill (``op.pools_reserve``).  An RTR for which the pool
or the peer's share of it has no room is dropped, and its message takes the way over RTS.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.digest cimport mix
from pyrdv.engine.event cimport TRACE_DROPPED
from pyrdv.engine.state cimport PROTOCOL_PUT, REASON_NONE, engine_t, offer_t, peer_t
from pyrdv.engine.trace cimport trace_message
from pyrdv.engine.wire cimport rtr_t


cdef enum:
    OFFERS_MAX = 32             # kept per peer


cdef bint offer_keep(engine_t *e, peer_t *p, const rtr_t *rtr, uint32_t skip) noexcept nogil:
    cdef offers_t *own = offers_of(p)
    cdef offer_t *offer = e.offer_free
    if offer == NULL or own.count >= OFFERS_MAX:
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
    offer.next = own.first
    own.first = offer
    own.count += 1
    return True


cdef void offer_drop(engine_t *e, peer_t *p, offer_t **link) noexcept nogil:
    cdef offer_t *offer = link[0]
    link[0] = offer.next
    offer.next = e.offer_free
    e.offer_free = offer
    e.offer_free_count += 1
    offers_of(p).count -= 1


cdef void offer_lost(engine_t *e, peer_t *p, uint32_t context, int32_t tag) noexcept nogil:
    trace_message(e, TRACE_DROPPED, p.rank, context, tag, 0, 0, PROTOCOL_PUT, REASON_NONE)


cdef uint32_t offers_clear(engine_t *e, peer_t *p) noexcept nogil:
    cdef offers_t *own = offers_of(p)
    cdef uint32_t count = own.count
    while own.first != NULL:
        offer_drop(e, p, &own.first)
    return count


cdef void offers_hash(const peer_t *p, uint64_t *h) noexcept nogil:
    cdef const offer_t *offer = offers_of(p).first
    while offer != NULL:
        mix(h, offer.cookie)
        mix(h, <uint64_t> offer.context << 32 | <uint32_t> offer.tag)
        mix(h, offer.skip)
        offer = offer.next
    mix(h, 3)
