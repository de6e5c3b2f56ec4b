# cython: language_level=3
"""Static adaptation: what one run learns of its envelopes, the next one knows from the start.

The receiver counts, per envelope, the RTRs that it sent and those that a START answered
(``engine.recording``).  ``saved`` writes that to a file and reads it again; an envelope whose
RTRs were mostly useless sends none then (Rashti and Afsahi, "A Speculative and Adaptive MPI
Rendezvous Protocol Over RDMA-enabled Interconnects", section 3.6).

The same table holds what ``regret`` learns.  It is open addressing over a power of two, half full
at most; only calls let it grow.  When ENVELOPES_MAX are there, all are forgotten that no file
needs, for most will be of the past.  An envelope for which there is no room is not recorded.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport calloc, free

from pyrdv.engine.state cimport call_t, engine_t, op_t, peer_t, usage_t
from pyrdv.engine.wire cimport header_t


cdef enum:
    ENVELOPES_FIRST = 256
    ENVELOPES_MAX = 1 << 16


cdef usage_t *place_of(usage_t *table, uint32_t slots, uint32_t context, uint32_t peer,
                       int32_t tag) noexcept nogil:
    """The record of an envelope, or the empty place where it belongs."""
    cdef uint32_t h = (context * <uint32_t> 0x9E3779B1u) ^ (peer * <uint32_t> 0x85EBCA77u) \
        ^ (<uint32_t> tag * <uint32_t> 0xC2B2AE3Du)
    cdef usage_t *at
    h ^= h >> 15
    while True:
        at = &table[h & (slots - 1)]
        if not at.known or at.context == context and at.peer == peer and at.tag == tag:
            return at
        h += 1


cdef usage_t *usage_find(engine_t *e, uint32_t context, uint32_t peer, int32_t tag) noexcept nogil:
    cdef usage_t *at
    if e.usage == NULL:
        return NULL
    at = place_of(e.usage, e.usage_slots, context, peer, tag)
    return at if at.known else NULL


cdef bint rebuild(engine_t *e, uint32_t slots, bint whole) noexcept nogil:
    """Into a table of that size; not `whole`: only what a file needs."""
    cdef usage_t *other = <usage_t *> calloc(<size_t> slots, sizeof(usage_t))
    cdef usage_t *at
    cdef uint32_t i
    if other == NULL:
        return False
    e.usage_count = 0
    for i in range(e.usage_slots):
        at = &e.usage[i]
        if at.known and (whole or at.useless or at.sent):
            place_of(other, slots, at.context, at.peer, at.tag)[0] = at[0]
            e.usage_count += 1
    free(e.usage)
    e.usage = other
    e.usage_slots = slots
    return True


cdef usage_t *usage_make(call_t *call, uint32_t context, uint32_t peer, int32_t tag) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef usage_t *at = usage_find(e, context, peer, tag)
    if at != NULL:
        return at
    if e.usage_count == ENVELOPES_MAX and not e.usage_kept:
        rebuild(e, e.usage_slots, False)
        e.usage_kept = e.usage_count > ENVELOPES_MAX // 2
    elif e.usage_count * 2 >= e.usage_slots:
        rebuild(e, max(e.usage_slots * 2, <uint32_t> ENVELOPES_FIRST * 2), True)
    if e.usage_count == ENVELOPES_MAX or e.usage_count * 2 >= e.usage_slots:
        return NULL
    at = place_of(e.usage, e.usage_slots, context, peer, tag)
    at.known = 1
    at.context = context
    at.peer = peer
    at.tag = tag
    e.usage_count += 1
    return at


cdef void history_sent(call_t *call, const op_t *op) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef usage_t *at
    if e.recording:
        at = usage_make(call, op.context, op.peer, op.tag)
        if at != NULL:
            at.sent += 1


cdef void history_used(engine_t *e, const peer_t *p, const header_t *h) noexcept nogil:
    cdef usage_t *at
    if e.recording:
        at = usage_find(e, h.context, p.rank, h.tag)
        if at != NULL:
            at.used += 1


cdef bint history_forbids(engine_t *e, const op_t *op) noexcept nogil:
    cdef const usage_t *at = usage_find(e, op.context, op.peer, op.tag)
    return at != NULL and at.useless


cdef bint history_forbid(call_t *call, uint32_t context, uint32_t peer, int32_t tag) noexcept nogil:
    cdef usage_t *at = usage_make(call, context, peer, tag)
    if at == NULL:
        return False
    at.useless = 1
    return True


cdef void history_free(engine_t *e) noexcept nogil:
    free(e.usage)
    e.usage = NULL
    e.usage_slots = e.usage_count = 0
