# cython: language_level=3
"""Eager: the announcement carries the data.

sender                               receiver
  EAGER(context, tag, data) ───────▶  posted receive: copied into its buffer
                                      none posted: copied into unexpected memory
  (SYNC only)              ◀───────  DONE(cookie), once matched and copied

A send completes when the fabric has copied its data (F3).  How much may be
outstanding is bounded by credits (P1).  Costs: one copy into fabric memory,
one out of it; no allocation, no system call unless the peer sleeps.
"""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.engine.control cimport control_request, header_fill
from pyrdv.engine.event cimport TRACE_ANNOUNCE
from pyrdv.engine.matching cimport message_keep, posted_find, posted_remove
from pyrdv.engine.op cimport op_complete, op_cookie, op_fit, op_matched
from pyrdv.engine.peer cimport announcement_posted, credit_return, eager_affordable, eager_cost
from pyrdv.engine.pools cimport message_new, message_release
from pyrdv.engine.protocols.contract cimport (
    VERDICT_ILLEGAL, VERDICT_KEPT, VERDICT_TAKEN, protocol_t)
from pyrdv.engine.protocols.done cimport done_start
from pyrdv.engine.state cimport (
    OP_OFFERED, OP_RECV, OP_SYNC, OP_WAITING, PEER_SELF, PROTOCOL_EAGER, REASON_PEER, engine_t,
    message_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_op
from pyrdv.engine.wire cimport PACKET_ADVICE, PACKET_EAGER, PACKET_SYNC, WIRE_HEADER, header_t
from pyrdv.fabrics.contract cimport FABRIC_OK, work_request


cdef int eager_post(engine_t *e, peer_t *p, uint32_t context, int32_t tag, const void *data,
                    uint64_t length, uint64_t cookie, int content) noexcept nogil:
    cdef header_t h
    cdef work_request wr
    cdef int status
    header_fill(p, &h, PACKET_EAGER, context, tag, length, cookie)
    h.content = <uint16_t> content
    if e.policy.advise != NULL:
        e.policy.advise(e, p, &h)
    if cookie:
        h.flags |= PACKET_SYNC
    control_request(&wr, &h, WIRE_HEADER)
    wr.local = <void *> data
    wr.length = length
    status = p.fabric.ops.post(p.fabric, p.rank, &wr, 1)
    if status == FABRIC_OK:
        announcement_posted(e, p, &h)
        p.eager_sent += eager_cost(length)
        e.counters.sends_eager += 1
    return status


cdef int eager_start(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int status = eager_post(e, p, op.context, op.tag, op.buffer, op.length,
                                 op_cookie(op) if op.flags & OP_SYNC else 0, op.content)
    if status == FABRIC_OK:
        trace_op(e, TRACE_ANNOUNCE, op, op.length, p.send_sequence - 1, 0)
        if op.flags & OP_SYNC:
            op.state = OP_WAITING
        else:
            op_complete(e, op, 0)
    return status


cdef inline void take(op_t *op, const void *data, uint64_t length) noexcept nogil:
    cdef uint64_t room = length if length < op.length else op.length
    if room:
        memcpy(op.buffer, data, room)


cdef int eager_arrived(engine_t *e, peer_t *p, const header_t *h,
                       const void *data) noexcept nogil:
    cdef op_t *op
    cdef message_t *m
    if not eager_affordable(e, p, h.length):
        return VERDICT_ILLEGAL
    op = posted_find(e, h.context, p.rank, h.tag)
    if op != NULL and op.kind == OP_RECV:
        posted_remove(e, op)
        if op.flags & OP_OFFERED and e.policy.met != NULL:
            e.policy.met(e, p, op, h)
        p.eager_taken += eager_cost(h.length)
        op.protocol = PROTOCOL_EAGER
        op.reason = REASON_PEER
        op_matched(e, op, p.rank, h.tag, h.length, h.content, p.recv_sequence)
        take(op, data, h.length)
        credit_return(e, p, h.length)
        if h.flags & PACKET_SYNC:
            op.cookie = h.cookie
            done_start(e, p, op)
        else:
            op_complete(e, op, op_fit(op))
        return VERDICT_TAKEN
    m = message_new(e, h.length)
    if m == NULL:
        e.counters.packets_refused += 1
        return VERDICT_KEPT
    p.eager_taken += eager_cost(h.length)
    m.protocol = PROTOCOL_EAGER
    m.flags = h.flags
    m.peer = p.rank
    m.context = h.context
    m.tag = h.tag
    m.length = h.length
    m.cookie = h.cookie
    m.content = <uint8_t> h.content
    if h.length:
        memcpy(m.data, data, h.length)
    message_keep(e, op, m)
    return VERDICT_TAKEN


cdef void eager_deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    cdef peer_t *p = &e.peers[m.peer]
    op.protocol = PROTOCOL_EAGER
    op.reason = REASON_PEER
    op_matched(e, op, m.peer, m.tag, m.length, m.content, m.number)
    take(op, m.data, m.length)
    if p.state != PEER_SELF:
        credit_return(e, p, m.length)
    if m.flags & PACKET_SYNC:
        op.cookie = m.cookie
        message_release(e, m)
        done_start(e, p, op)
    else:
        message_release(e, m)
        op_complete(e, op, op_fit(op))


cdef protocol_t operations
operations.name = b"eager"
operations.code = PROTOCOL_EAGER
operations.start = eager_start
operations.deliver = eager_deliver
operations.kind_count = 1
operations.kinds[0].kind = PACKET_EAGER
operations.kinds[0].length = WIRE_HEADER
operations.kinds[0].flags = PACKET_SYNC | PACKET_ADVICE
operations.kinds[0].announces = True
operations.kinds[0].carries = True
operations.kinds[0].arrived = eager_arrived


cdef protocol_t *eager_protocol() noexcept nogil:
    return &operations
