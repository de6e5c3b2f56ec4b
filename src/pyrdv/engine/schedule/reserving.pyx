# cython: language_level=3
"""What a schedule takes when it starts, for steps take nothing (`schedule`, L1)."""
from libc.stdint cimport uint32_t
from libc.string cimport memset

from pyrdv.engine.choice.choose cimport choose_ahead
from pyrdv.engine.event cimport TRACE_CHOOSE
from pyrdv.engine.matching cimport posted_reserve
from pyrdv.engine.op cimport op_new, ops_reserve
from pyrdv.engine.peer cimport eager_limit, peer_connect
from pyrdv.engine.pools cimport class_of, data_reserve, messages_reserve
from pyrdv.engine.protocols.table cimport protocol_table, table_t
from pyrdv.engine.registering cimport op_own
from pyrdv.engine.schedule.plan cimport ACTION_RECV, ACTION_SEND, action_t, schedule_t
from pyrdv.engine.state cimport (
    ANY_PEER, DATA_CLASSES, MESSAGES_LOW, OP_POSTED, OP_RECV, OP_RESERVED, OP_SCHEDULE,
    OP_SCHEDULED, OP_SEND, PROMISE_GIVEN, call_t, engine_t, peer_t)
from pyrdv.engine.step cimport refill
from pyrdv.engine.trace cimport trace_message, trace_read
from pyrdv.engine.wire cimport CONTENT_BUFFER, CONTENT_OBJECT


cdef const table_t *TABLE = protocol_table()


cdef void reserve_message(call_t *call, const schedule_t *s, action_t *a) noexcept nogil:
    """The operation of a message; while unattended, what it will need (L1)."""
    cdef engine_t *e = &call.engine
    cdef peer_t *p = &e.peers[a.peer]
    cdef bint sends = a.kind == ACTION_SEND
    cdef int i
    a.op = op_new(call, OP_SEND if sends else OP_RECV, a.peer, s.context, s.tag, a.buffer,
                  a.length)
    op_own(a.op, a.owner)
    if sends:
        # Its receiver waits for it, so if its data cannot be sent an empty message says so.
        a.op.promised = PROMISE_GIVEN
        a.op.content = CONTENT_OBJECT if a.part else CONTENT_BUFFER
        peer_connect(call, p)       # what that lacks, the queue waits for
    if e.unattended and sends:
        choose_ahead(call, p, a.op)
    elif e.unattended:
        a.op.state = OP_POSTED      # as which a protocol knows it
        for i in range(TABLE.reserving_count):
            TABLE.reserving[i].reserve(call, a.op)
    a.op.state = OP_RESERVED


cdef bint reserve_unexpected(call_t *call, const schedule_t *s) noexcept nogil:
    """Memory for what comes before the round that receives it.  No call may follow that would make
    some, and a packet that finds none holds up those behind it, which that round may wait for."""
    cdef engine_t *e = &call.engine
    cdef uint32_t counts[DATA_CLASSES]
    cdef uint32_t receives = 0
    cdef uint32_t i
    cdef const action_t *a
    cdef bint well
    memset(counts, 0, sizeof(counts))
    for i in range(s.action_count):
        a = &s.actions[i]
        if a.kind == ACTION_RECV:
            receives += 1
            if 0 < a.length <= eager_limit(e, e.peers[a.peer].fabric):
                counts[class_of(a.length)] += 1
    well = messages_reserve(call, receives + MESSAGES_LOW)
    for i in range(DATA_CLASSES):
        well = data_reserve(call, i, counts[i]) and well
    return well


cdef bint schedule_reserve(call_t *call, schedule_t *s) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef uint32_t i
    if not ops_reserve(call, s.action_count + 1):
        return False
    posted_reserve(call)
    s.op = op_new(call, OP_SCHEDULE, ANY_PEER, s.context, s.tag, NULL, 0)
    s.op.state = OP_SCHEDULED
    s.op.posted = trace_read(e)
    s.op.told = 1                   # the trace knows messages; this is none
    s.op.protocol = s.way           # no `protocol_code`: only who tells of it looks
    s.op.reason = s.reason
    if s.way:
        trace_message(e, TRACE_CHOOSE, ANY_PEER, s.context, s.tag, 0, 0, s.way, s.reason)
    for i in range(s.action_count):
        if s.actions[i].kind == ACTION_SEND or s.actions[i].kind == ACTION_RECV:
            reserve_message(call, s, &s.actions[i])
    if e.unattended:
        refill(call)
        reserve_unexpected(call, s)     # what cannot be had is left to a call
    return True
