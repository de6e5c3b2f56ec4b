# cython: language_level=3
"""The end of a peer: it finished in good order, died, or broke the rules."""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from pyrdv.engine.event cimport TRACE_CLOSED, TRACE_LOST
from pyrdv.engine.matching cimport posted_remove
from pyrdv.engine.op cimport op_complete, op_fit
from pyrdv.engine.protocols.table cimport protocol_table, table_t
from pyrdv.engine.schedule.schedule cimport schedules_alarm
from pyrdv.engine.state cimport (
    OP_CANCELLED, OP_CANCELLING, OP_DONE_ONLY, OP_FREE, OP_LANDING, OP_LANELESS, OP_PEER_LOST,
    OP_PIPING, OP_POSTED, OP_QUEUED, OP_READY, OP_REFUSED, OP_SEND, OP_WAITING, OPS_PER_SLAB,
    PEER_CLOSED, PEER_LOST, call_t, engine_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_event
from pyrdv.fabrics.contract cimport EVENT_LOST


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)
    void note8(uint8_t *where, uint8_t value)


cdef const table_t *TABLE = protocol_table()


cdef void end_operation(engine_t *e, peer_t *p, op_t *op, bint everything) noexcept nogil:
    if op.state == OP_POSTED and op.peer == p.rank:
        posted_remove(e, op)
        op_complete(e, op, OP_CANCELLED if op.flags & OP_CANCELLING else OP_PEER_LOST)
    elif (op.state == OP_QUEUED or op.state == OP_WAITING) and op.peer == p.rank:
        if e.policy.answered != NULL:
            e.policy.answered(p, op)
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
    if e.schedules != NULL:
        schedules_alarm(e, p)
    adjust32(&e.epoch, 1)


cdef void finish_peer(call_t *call, peer_t *p) noexcept nogil:
    cdef engine_t *e = &call.engine
    note8(&p.finished, 2)
    adjust32(&e.peers_left, -1)
    end_operations(call, p, False)


cdef void end_peer(call_t *call, peer_t *p) noexcept nogil:
    cdef engine_t *e = &call.engine
    note8(&p.state, PEER_LOST if p.broken or p.gone == EVENT_LOST else PEER_CLOSED)
    adjust32(&e.peers_lost, p.state == PEER_LOST)     # partner: engine_deaths
    trace_event(e, TRACE_LOST if p.state == PEER_LOST else TRACE_CLOSED, p.rank)
    if not p.finished:
        note8(&p.finished, 2)
        adjust32(&e.peers_left, -1)
    if p.broken:
        p.fabric.ops.disconnect(p.fabric, p.rank)
    end_operations(call, p, True)
