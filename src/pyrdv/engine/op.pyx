# cython: language_level=3
"""Operations: their pool, and completion exactly once (R3).

Slabs of operations are kept until the engine ends, so that a stale number finds another generation
and no memory of somebody else.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from pyrdv.engine.calling cimport call_proven
from pyrdv.engine.choice.waiting cimport waiting_never
from pyrdv.engine.event cimport TRACE_COMPLETE
from pyrdv.engine.lost cimport op_fails
from pyrdv.engine.protocols.lanes cimport passing_ends
from pyrdv.engine.registering cimport op_disown
from pyrdv.engine.state cimport (
    OP_COMPLETE, OP_FREE, OP_PEER_LOST, OP_RECV, OP_SEND, OPS_PER_SLAB, PROMISE_NONE,
    PROTOCOL_EAGER, PROTOCOL_NONE, PROTOCOL_PIPELINE, REASON_NONE, call_t, engine_t, message_t,
    op_t)
from pyrdv.engine.trace cimport trace_got, trace_op


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)


cdef bint ops_grow(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef op_t *slab
    cdef op_t **wider
    cdef uint32_t i
    cdef uint32_t first = e.op_slab_count * OPS_PER_SLAB
    call_proven(call)
    if e.op_slab_count == e.op_slab_room:
        wider = <op_t **> realloc(e.op_slabs, (e.op_slab_room * 2 + 8) * sizeof(op_t *))
        if wider == NULL:
            return False
        e.op_slabs = wider
        e.op_slab_room = e.op_slab_room * 2 + 8
    slab = <op_t *> calloc(OPS_PER_SLAB, sizeof(op_t))
    if slab == NULL:
        return False
    e.op_slabs[e.op_slab_count] = slab
    e.op_slab_count += 1
    for i in range(OPS_PER_SLAB):
        slab[i].index = first + i
        slab[i].generation = 1
        slab[i].next = e.op_free
        e.op_free = &slab[i]
    return True


cdef bint ops_reserve(call_t *call, uint32_t count) noexcept nogil:
    cdef engine_t *e = &call.engine
    while e.op_slab_count * OPS_PER_SLAB - e.ops_in_use < count:
        if not ops_grow(call):
            return False
    return True


cdef op_t *op_new(call_t *call, int kind, uint32_t peer, uint32_t context, int32_t tag,
                  void *buffer, uint64_t length) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef op_t *op
    if e.op_free == NULL and not ops_grow(call):
        return NULL
    op = e.op_free
    e.op_free = op.next
    e.ops_in_use += 1
    e.stirred = 1               # it may post something
    op.next = NULL
    op.kind = <uint8_t> kind
    op.flags = 0
    op.pairing = 0
    op.halts = 0
    op.error = 0
    op.peer = peer
    op.context = context
    op.tag = tag
    op.buffer = <char *> buffer
    op.length = length
    op.source = peer
    op.source_tag = tag
    op.total = 0
    op.moved = 0
    op.waits = 0
    op.content = 0
    op.promised = PROMISE_NONE
    op.protocol = PROTOCOL_NONE
    op.reason = REASON_NONE
    op.cost = op.instead = 0
    op.born = op.since = op.late = 0
    op.line = e.trace.line
    op.told = 0
    op.message = NULL
    memset(&op.own[0], 0, sizeof(op.own))
    op.owner = NULL
    op.mapping = NULL
    return op


cdef uint64_t op_cookie(const op_t *op) noexcept nogil:
    return (<uint64_t> op.generation << 32) | op.index


cdef op_t *op_lookup(engine_t *e, uint64_t cookie) noexcept nogil:
    cdef uint32_t index = <uint32_t> cookie
    cdef op_t *op
    if index >= e.op_slab_count * OPS_PER_SLAB:
        return NULL
    op = &e.op_slabs[index // OPS_PER_SLAB][index % OPS_PER_SLAB]
    if op.state == OP_FREE or op.generation != <uint32_t> (cookie >> 32):
        return NULL
    return op


cdef void op_matched(engine_t *e, op_t *op, uint32_t source, int32_t tag, uint64_t total,
                     int content, uint32_t number) noexcept nogil:
    op.source = source
    op.source_tag = tag
    op.total = total
    op.content = <uint8_t> content
    trace_got(e, op, number)
    if content and op.kind == OP_RECV and op.length < sizeof(op.peek) <= total:
        op_disown(e, op)
        op.buffer = &op.peek[0]
        op.length = sizeof(op.peek)


cdef void op_complete(engine_t *e, op_t *op, int error) noexcept nogil:
    op_disown(e, op)
    if op.protocol == PROTOCOL_PIPELINE:
        passing_ends(op)
    if op.born:
        waiting_never(e, op)
    if error == OP_PEER_LOST:
        op_fails(e, op)
    op.error = error
    if error or op.protocol != PROTOCOL_EAGER:
        trace_op(e, TRACE_COMPLETE, op, op.length if op.kind == OP_SEND else op_wanted(op), 0,
                 error)
    op.state = OP_COMPLETE
    adjust32(&e.epoch, 1)


cdef void op_release(engine_t *e, op_t *op) noexcept nogil:
    op.state = OP_FREE
    op.generation += 1
    if op.generation == 0:
        op.generation = 1       # 0 would make a cookie that says "none"
    op.next = e.op_free
    e.op_free = op
    e.ops_in_use -= 1


cdef void message_hold(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    op_matched(e, op, m.peer, m.tag, m.length, m.content, m.number)
    op.message = m
    op_complete(e, op, 0)


cdef void ops_free(engine_t *e) noexcept nogil:
    cdef uint32_t i
    for i in range(e.op_slab_count):
        free(e.op_slabs[i])
    free(e.op_slabs)
    e.op_slabs = NULL
    e.op_slab_count = 0
