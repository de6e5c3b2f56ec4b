# cython: language_level=3
"""DONE: tell a sender that its message was taken.

Sent once per rendezvous and per synchronous eager message.  DONE is what
completes the send, so it leaves only after the data was read, or, for a
synchronous eager message, after the receive was matched and has its data.
"""
from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.control cimport control_post, header_fill
from pyrdv.engine.protocols.lanes cimport lane_idle, lane_through
from pyrdv.engine.op cimport op_complete, op_fit, op_lookup, op_wanted
from pyrdv.engine.peer cimport ready_append
from pyrdv.engine.protocols.contract cimport (
    SERVED, SERVED_AGAIN, VERDICT_ILLEGAL, VERDICT_TAKEN, protocol_t)
from pyrdv.engine.state cimport (
    OP_DONE_ONLY, OP_INVALID, OP_PEER_LOST, OP_PIPING, OP_REFUSED, OP_SEND, OP_WAITING, PAIR_ACK,
    PATIENT, PEER_NEW, PEER_UP, PROTOCOL_DONE, WAITS_HERE, engine_t, op_t, peer_t)
from pyrdv.engine.wire cimport PACKET_DONE, PACKET_REFUSED, PACKET_WAITING, WIRE_HEADER, header_t
from pyrdv.fabrics.contract cimport CAP_PINS, FABRIC_AGAIN


cdef bint pipe_welcome(engine_t *e, peer_t *p) noexcept nogil:
    return p.fabric.capabilities & CAP_PINS and lane_idle(e, p, True)


cdef void done_fill(engine_t *e, peer_t *p, op_t *op, header_t *h) noexcept nogil:
    header_fill(p, h, PACKET_DONE, op.context, op.source_tag, op_wanted(op), op.cookie)
    if op.waits & WAITS_HERE and pipe_welcome(e, p):
        h.flags = PACKET_WAITING
    if op.flags & OP_REFUSED:
        h.flags |= PACKET_REFUSED
        h.length = 0


cdef int serve(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef header_t h
    if p.state != PEER_UP:
        if p.state == PEER_NEW:
            peer_call(e, p)
            return SERVED_AGAIN
        # Nobody is left to be told; the data of an eager message is here all the same.
        op_complete(e, op, OP_PEER_LOST if op.flags & OP_REFUSED else op_fit(op))
        return SERVED
    done_fill(e, p, op, &h)
    if control_post(p, &h, WIRE_HEADER) == FABRIC_AGAIN:
        return SERVED_AGAIN
    if op.pairing & PAIR_ACK:
        e.policy.acknowledged(p, op)
    op_complete(e, op, op.error if op.flags & OP_REFUSED else op_fit(op))
    return SERVED


cdef void done_start(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    op.flags |= OP_DONE_ONLY
    # Behind receives that wait already: they have waited longer.
    if p.ready_head != NULL or serve(e, p, op) == SERVED_AGAIN:
        ready_append(e, p, op)


cdef int done_arrived(engine_t *e, peer_t *p, const header_t *h,
                      const void *data) noexcept nogil:
    cdef op_t *op = op_lookup(e, h.cookie)
    if op == NULL or op.kind != OP_SEND or op.peer != p.rank:
        return VERDICT_ILLEGAL
    if op.state != OP_WAITING and (op.state != OP_PIPING or not h.flags & PACKET_REFUSED
                                   and not lane_through(op)):
        return VERDICT_ILLEGAL
    if h.length > op.length:
        return VERDICT_ILLEGAL
    if e.policy.answered != NULL:
        e.policy.answered(p, op)
    if op.total:
        # What its receives of large messages do; others say nothing of the next one.
        p.patience = min(p.patience + 1, PATIENT) if h.flags & PACKET_WAITING else 0
    op.moved = h.length
    op_complete(e, op, OP_INVALID if h.flags & PACKET_REFUSED else 0)
    return VERDICT_TAKEN


cdef protocol_t operations
operations.name = b"done"
operations.code = PROTOCOL_DONE
operations.serve = serve
operations.kind_count = 1
operations.kinds[0].kind = PACKET_DONE
operations.kinds[0].length = WIRE_HEADER
operations.kinds[0].flags = PACKET_REFUSED | PACKET_WAITING
operations.kinds[0].arrived = done_arrived


cdef protocol_t *done_protocol() noexcept nogil:
    return &operations
