# cython: language_level=3
"""FINISH: the orderly end of a rank.

A rank that ends first completes what it has matched, then sends FINISH to
every peer it is connected to: it will announce nothing more and receive
nothing more.  The peer fails its sends to it and its receives from it, unless
an announcement is here already: the data of such a message can still be read,
for the finishing rank stays until its announced sends are taken, or until
their receiver has sent FINISH as well.  Only then does it disconnect.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.control cimport control_post, header_fill
from pyrdv.engine.matching cimport posted_remove, unanswered_remove
from pyrdv.engine.op cimport op_complete, op_fit
from pyrdv.engine.protocols.contract cimport VERDICT_TAKEN, protocol_t
from pyrdv.engine.protocols.table cimport protocol_table, table_t
from pyrdv.engine.state cimport (
    OP_CANCELLED, OP_CANCELLING, OP_DONE_ONLY, OP_FREE, OP_LANDING, OP_LANELESS, OP_PEER_LOST,
    OP_PIPING, OP_POSTED, OP_QUEUED, OP_READY, OP_REFUSED, OP_SEND, OP_WAITING, OPS_PER_SLAB,
    PAIR_UNANSWERED, call_t, engine_t, op_t, peer_t)
from pyrdv.engine.wire cimport PACKET_FINISH, WIRE_HEADER, header_t
from pyrdv.fabrics.contract cimport FABRIC_OK


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)
    void note8(uint8_t *where, uint8_t value)


cdef const table_t *TABLE = protocol_table()


cdef int finish_post(engine_t *e, peer_t *p) noexcept nogil:
    cdef header_t h
    cdef int status
    header_fill(p, &h, PACKET_FINISH, 0, 0, 0, 0)
    status = control_post(p, &h, WIRE_HEADER)
    if status == FABRIC_OK:
        p.finish_told = 1
    return status


cdef void end_operation(engine_t *e, peer_t *p, op_t *op, bint everything) noexcept nogil:
    if op.state == OP_POSTED and op.peer == p.rank:
        posted_remove(e, op)
        op_complete(e, op, OP_CANCELLED if op.flags & OP_CANCELLING else OP_PEER_LOST)
    elif (op.state == OP_QUEUED or op.state == OP_WAITING) and op.peer == p.rank:
        if op.pairing & PAIR_UNANSWERED:
            unanswered_remove(e, op)
        op_complete(e, op, OP_PEER_LOST)
    elif everything and op.state == OP_LANDING and op.peer == p.rank:
        op_complete(e, op, OP_PEER_LOST)
    elif (op.state == OP_LANELESS or op.state == OP_PIPING) and op.source == p.rank \
            and (everything or op.kind == OP_SEND):
        op_complete(e, op, OP_PEER_LOST)
    elif everything and op.state == OP_READY and op.source == p.rank:
        # The data of an eager message is here; only its DONE cannot be told any more.
        if op.flags & OP_DONE_ONLY and not op.flags & OP_REFUSED:
            op_complete(e, op, op_fit(op))
        else:
            op_complete(e, op, OP_PEER_LOST)


cdef void end_operations(call_t *call, peer_t *p, bint everything) noexcept nogil:
    """A READ or WRITE under way is not touched: it ends through poll (F4)."""
    cdef engine_t *e = &call.engine
    cdef uint32_t slab
    cdef int i
    p.queue_head = p.queue_tail = NULL
    for i in range(TABLE.count):
        if TABLE.rows[i].peer_gone != NULL:
            TABLE.rows[i].peer_gone(call, p, everything)
    if everything:
        p.ready_head = p.ready_tail = NULL
    for slab in range(e.op_slab_count):
        for i in range(OPS_PER_SLAB):
            if e.op_slabs[slab][i].state != OP_FREE:
                end_operation(e, p, &e.op_slabs[slab][i], everything)
    adjust32(&e.epoch, 1)


cdef int finish_arrived(engine_t *e, peer_t *p, const header_t *h,
                        const void *data) noexcept nogil:
    if p.finished == 0:
        note8(&p.finished, 1)
        peer_call(e, p)
    return VERDICT_TAKEN


cdef int finish_act(call_t *call, peer_t *p) noexcept nogil:
    """End what can never complete now that `p` has finished."""
    cdef engine_t *e = &call.engine
    if p.finished != 1:
        return 0
    note8(&p.finished, 2)
    adjust32(&e.peers_left, -1)
    end_operations(call, p, False)
    return 1


cdef protocol_t operations
operations.name = b"finish"
operations.act = finish_act
operations.kind_count = 1
operations.kinds[0].kind = PACKET_FINISH
operations.kinds[0].length = WIRE_HEADER
operations.kinds[0].arrived = finish_arrived


cdef protocol_t *finish_protocol() noexcept nogil:
    return &operations
