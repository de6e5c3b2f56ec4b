# cython: language_level=3
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.fabrics.verbs.state cimport (
    SQ_DEPTH, link_t, packet_head_t, qp_t, sq_entry_t, verbs_t)


# What a chain changes, so that one that was not taken can be undone (F2).
cdef struct before_t:
    # Of the queue pair
    uint32_t sq_head
    uint32_t slot_head
    uint32_t unsignaled
    uint32_t reads
    uint32_t writes
    uint32_t fences
    uint32_t held_tail
    # Of its link
    uint32_t sent
    uint32_t ring_sent
    uint32_t sequence
    uint32_t freed_told
    uint32_t ring_freed_told


# All of these are `step`, but for link_forget.

# SENDs that are held back, whose credits, slots and places in the queue are reserved (V4a).
cdef inline uint32_t held(const qp_t *qp) noexcept nogil:
    return qp.held_tail - qp.held_head

# Work requests that the send queue has room for, and send slots that are taken.
cdef inline uint32_t queue_room(const qp_t *qp) noexcept nogil:
    return SQ_DEPTH - (qp.sq_head - qp.sq_told) - held(qp)

cdef inline uint32_t slots_used(const qp_t *qp) noexcept nogil:
    return qp.slot_head - qp.slot_done + held(qp)

# Credits that are taken (V3).
cdef inline uint32_t credits_used(const link_t *link) noexcept nogil:
    return link.sent - link.peer_freed + held(&link.qp)

# Of a queue pair.

# Note what a chain will change, in the link too, and take it back.
cdef void remember(const qp_t *qp, before_t *b) noexcept nogil
cdef void restore(qp_t *qp, const before_t *b) noexcept nogil
# The record of the next work request, and its wr_id: ask for that first.
cdef sq_entry_t *entry_next(qp_t *qp, int kind, uint64_t ident) noexcept nogil
cdef uint64_t wr_name(const qp_t *qp) noexcept nogil
# Memory for a copy of `total` bytes, described in the i-th request; NULL: no slot.
cdef char *copy_room(verbs_t *f, qp_t *qp, int i, uint32_t total) noexcept nogil
# Count the copied request `i`; every SIGNAL_EVERY-th asks for a completion (V6, V6a).
cdef void copy_count(verbs_t *f, qp_t *qp, int i, int kind) noexcept nogil
# Hand the first `count` requests to the device as one chain (V10); OK | AGAIN | LOST.
cdef int ring_doorbell(verbs_t *f, qp_t *qp, int count, const before_t *b) noexcept nogil

# Of a link.

cdef void head_fill(link_t *link, packet_head_t *head, int kind, uint32_t sequence) noexcept nogil
# Have poll look at `link`.
cdef void link_busy(verbs_t *f, link_t *link) noexcept nogil
# Note that `link` cannot go on (L3); the first reason stays.
cdef void link_fail(verbs_t *f, link_t *link, int failure, int status) noexcept nogil
# Post a control packet now; FABRIC_OK | AGAIN | LOST.
cdef int control_send(verbs_t *f, link_t *link, int kind, const void *payload,
                      uint32_t length) noexcept nogil
# Owe `bits` to the peer, and post what there is room for.
cdef void link_owe(verbs_t *f, link_t *link, int bits) noexcept nogil
# Post what is owed, as far as there is room; the rest makes the link needy.
cdef void link_pay(verbs_t *f, link_t *link) noexcept nogil
# Owe CREDIT once half of what the peer may have outstanding is not told.
cdef void link_credit(verbs_t *f, link_t *link) noexcept nogil
# call.  Forget `link` in every list of the fabric.
cdef void link_forget(verbs_t *f, link_t *link) noexcept nogil
