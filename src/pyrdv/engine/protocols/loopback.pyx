# cython: language_level=3
"""Messages of a process to itself: one copy, straight from send to receive buffer.

A small message with no receive posted is kept as unexpected data and its send
is complete; a large or synchronous one keeps its data in the sender's buffer
until the receive comes.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.engine.matching cimport (
    message_keep, posted_find, posted_remove, unexpected_reserve)
from pyrdv.engine.op cimport op_complete, op_fit, op_matched, op_new
from pyrdv.engine.pools cimport message_new, message_release, pools_reserve
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport (
    OP_NO_MEMORY, OP_RECV, OP_SEND, OP_WAITING, PROTOCOL_EAGER, PROTOCOL_LOOPBACK, REASON_SELF,
    call_t, engine_t, message_t, op_t)
from pyrdv.engine.trace cimport trace_read, trace_post


cdef enum:
    SELF_EAGER = 1 << 16        # up to here an early message is buffered


cdef message_t *new_message(call_t *call, uint64_t length) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef message_t *m = message_new(e, length)
    if m == NULL and pools_reserve(call) == 0:
        m = message_new(e, length)
    return m


cdef int loop_send(call_t *call, uint32_t context, int32_t tag, void *data, uint64_t length,
                   bint sync, int content, op_t **out) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef op_t *op = posted_find(e, context, e.rank, tag)
    cdef op_t *sender = NULL
    cdef message_t *m
    cdef bint buffered = length <= SELF_EAGER and not sync
    out[0] = NULL
    e.counters.sends_self += 1
    if op != NULL and op.kind == OP_RECV:
        posted_remove(e, op)
        op.protocol = PROTOCOL_LOOPBACK
        op.reason = REASON_SELF
        op_matched(e, op, e.rank, tag, length, content, 0)
        length = length if length < op.length else op.length
        if length:
            memcpy(op.buffer, data, length)
        op_complete(e, op, op_fit(op))
        return 0
    m = new_message(call, length if buffered else 0)
    if m == NULL and buffered:
        buffered = False        # no memory for a copy
        m = new_message(call, 0)
    if m == NULL:
        return -OP_NO_MEMORY
    if not buffered:
        sender = op_new(call, OP_SEND, e.rank, context, tag, data, length)
        if sender == NULL:
            message_release(e, m)
            return -OP_NO_MEMORY
        sender.state = OP_WAITING
        sender.protocol = PROTOCOL_LOOPBACK
        sender.reason = REASON_SELF
        sender.posted = trace_read(e)
        trace_post(e, sender)
        m.sender = sender
        sender.message = m
    elif length:
        memcpy(m.data, data, length)
    m.protocol = PROTOCOL_EAGER if buffered else PROTOCOL_LOOPBACK
    m.peer = e.rank
    m.context = context
    m.tag = tag
    m.length = length
    m.content = <uint8_t> content
    unexpected_reserve(call)
    message_keep(e, op, m)
    out[0] = sender
    return 0 if buffered else 1


cdef void loop_deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    cdef op_t *sender = m.sender
    cdef uint64_t length
    op.protocol = PROTOCOL_LOOPBACK
    op.reason = REASON_SELF
    op_matched(e, op, m.peer, m.tag, m.length, m.content, m.number)
    length = m.length if m.length < op.length else op.length
    if length:
        memcpy(op.buffer, sender.buffer, length)
    message_release(e, m)
    sender.moved = length
    sender.message = NULL
    op_complete(e, op, op_fit(op))
    op_complete(e, sender, 0)


cdef protocol_t operations
operations.name = b"loopback"
operations.code = PROTOCOL_LOOPBACK
operations.deliver = loop_deliver


cdef protocol_t *loopback_protocol() noexcept nogil:
    return &operations
