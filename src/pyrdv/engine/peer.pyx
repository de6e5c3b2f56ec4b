# cython: language_level=3
"""One peer: connection state, credits, sequence numbers, queues.

Invariants:

P1  Eager credits.  A sender may have at most ``engine.eager_units`` units of
    eager messages that the receiver has not given back.  The receiver gives
    units back when the data has left its unexpected memory.  So that memory is
    bounded by what all peers may have outstanding; beyond it a sender uses
    RTS, which costs the receiver a descriptor and no data (R6: never a loss).
    The receiver counts too (``eager_taken``): a peer that overdraws is broken.
    Its count is never ahead of the sender's, since what it gave back is told
    later and what was sent arrives later.
P2  ``eager_sent`` and ``returned`` are cumulative and wrap modulo 2**32; only
    differences are used.  The allowance is far below 2**31 units.  A DONE that
    waits behind its READ may carry an older count than packets posted after
    it: an older count is ignored, and such a DONE does not count as telling.
P3  Announcements leave in the order of the send calls (R4): while ``queue`` is
    not empty every new send goes to its end.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.calling cimport call_proven
from pyrdv.engine.control cimport credits_told
from pyrdv.engine.event cimport TRACE_QUEUE
from pyrdv.engine.protocols.lanes cimport lanes_abandon
from pyrdv.engine.state cimport (
    OP_LACKING, OP_PEER_LOST, OP_QUEUED, OP_READY, PEER_CLOSED, PEER_DEAF, PEER_LOST, PEER_NEW,
    PEER_UP, call_t, engine_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_op
from pyrdv.engine.wire cimport header_t
from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_FAILED, FABRIC_OK


cdef extern from "order.h" nogil:
    void note8(uint8_t *where, uint8_t value)


cdef void peer_activate(engine_t *e, peer_t *p) noexcept nogil:
    if not p.active:
        p.active = 1
        p.next_active = e.active
        e.active = p


cdef int peer_connect(call_t *call, peer_t *p) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int status
    call_proven(call)
    if p.state == PEER_LOST or p.state == PEER_CLOSED or p.state == PEER_DEAF:
        return OP_PEER_LOST
    if p.state == PEER_NEW:
        e.stirred = 1
        status = p.fabric.ops.connect(p.fabric, p.rank)
        if status == FABRIC_OK:
            note8(&p.state, PEER_UP)
        elif status == FABRIC_FAILED:
            return OP_LACKING
        elif status != FABRIC_AGAIN:
            return OP_PEER_LOST
    return 0


cdef void peers_abandon(engine_t *e) noexcept nogil:
    cdef uint32_t rank
    cdef peer_t *p
    e.fabric_count = 0
    e.active = NULL
    e.calling = NULL
    lanes_abandon(e)
    for rank in range(e.size):
        p = &e.peers[rank]
        if p.state == PEER_NEW or p.state == PEER_UP:
            p.state = PEER_CLOSED
            p.finished = 2
    e.epoch += 1


cdef void announcement_posted(engine_t *e, peer_t *p, const header_t *h) noexcept nogil:
    if e.policy.announced != NULL:
        e.policy.announced(e, p, h)
    p.send_sequence += 1
    credits_told(p, h)


cdef void credit_return(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    p.returned += eager_cost(length)
    # Told along with other packets; on its own when half the allowance is owed.
    if p.returned - p.returned_told >= e.eager_units >> 1:
        peer_activate(e, p)


cdef bint freed_changes(peer_t *p, uint32_t freed) noexcept nogil:
    if <int32_t> (freed - p.freed[0]) < 0:
        # As for credits.
        return True
    if freed - p.freed[0] > p.placed - p.freed[0]:
        return False
    p.freed[0] = freed
    return True


cdef void queue_append(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    op.state = OP_QUEUED
    op.next = NULL
    if p.queue_tail == NULL:
        p.queue_head = op
    else:
        p.queue_tail.next = op
    p.queue_tail = op
    e.counters.sends_queued += 1
    trace_op(e, TRACE_QUEUE, op, op.length, 0, 0)
    peer_activate(e, p)


cdef void queue_pop(peer_t *p) noexcept nogil:
    cdef op_t *op = p.queue_head
    p.queue_head = op.next
    if p.queue_head == NULL:
        p.queue_tail = NULL
    op.next = NULL


cdef bint queue_remove(peer_t *p, op_t *op) noexcept nogil:
    cdef op_t *before = NULL
    cdef op_t *at = p.queue_head
    while at != NULL and at != op:
        before = at
        at = at.next
    if at == NULL:
        return False
    if before == NULL:
        p.queue_head = op.next
    else:
        before.next = op.next
    if p.queue_tail == op:
        p.queue_tail = before
    op.next = NULL
    return True


cdef void ready_append(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    op.state = OP_READY
    op.next = NULL
    if p.ready_tail == NULL:
        p.ready_head = op
    else:
        p.ready_tail.next = op
    p.ready_tail = op
    peer_activate(e, p)


cdef void ready_again(peer_t *p, op_t *op) noexcept nogil:
    op.next = p.ready_head
    p.ready_head = op
    if p.ready_tail == NULL:
        p.ready_tail = op


cdef void ready_pop(peer_t *p) noexcept nogil:
    cdef op_t *op = p.ready_head
    p.ready_head = op.next
    if p.ready_head == NULL:
        p.ready_tail = NULL
    op.next = NULL
