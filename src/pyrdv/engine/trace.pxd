# cython: language_level=3
"""The trace: what an engine did last.  It is always on.

Everything here but `trace_open` and `trace_close` is step-safe and runs under the engine's lock.

T1  An event is written into memory that exists, and nothing is waited for.
T2  To read the processor's counter costs as much as all else that an eager message does for the
    trace.  So its events (`trace_light`) take the time at which the counter was read last: when a
    receive was posted, by who waits, by a send that nothing answered.  All other events read it.
    While the trace is to be written out (`exact`), so do these.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.event cimport NO_OPERATION, event_t
from pyrdv.engine.state cimport OP_SEND, engine_t, op_t


cdef extern from "order.h" nogil:
    uint64_t glance64(const uint64_t *where)
    void note64(uint64_t *where, uint64_t value)

cdef extern from "ticks.h" nogil:
    uint64_t ticks_now()

# Get the ring, empty; -1: no memory.  Once, and given back once.  `exact`: for writing it out.
cdef int trace_open(engine_t *e, bint exact) noexcept nogil
cdef void trace_close(engine_t *e) noexcept nogil
# A waiter sleeps.
cdef void trace_sleep(engine_t *e) noexcept nogil


# The counter was just read.
cdef inline void trace_clock(engine_t *e, uint64_t ticks) noexcept nogil:
    note64(&e.trace.clock, ticks)


# A small message is about to be sent, or has come.
cdef inline void trace_exact(engine_t *e) noexcept nogil:
    if e.trace.exact:
        trace_clock(e, ticks_now())


# A new event, of which all but the fields named here is still to be filled.
cdef inline event_t *trace_next(engine_t *e, int kind) noexcept nogil:
    cdef event_t *event = &e.trace.events[e.trace.count & e.trace.mask]
    e.trace.count += 1
    event.ticks = glance64(&e.trace.clock)
    event.kind = <uint8_t> kind
    return event


# Something of a message, of which this side has no operation, or none that matters; the time is
# read by whoever calls this.
cdef inline void trace_light(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                             uint64_t length, uint32_t number, int protocol,
                             int reason) noexcept nogil:
    cdef event_t *event = trace_next(e, kind)
    event.length = length
    event.op = NO_OPERATION
    event.generation = 0
    event.peer = peer
    event.context = context
    event.tag = tag
    event.number = number
    event.side = 0
    event.protocol = <uint8_t> protocol
    event.reason = <uint8_t> reason
    event.error = 0
    event.cost = event.instead = 0
    event.line = e.trace.line


# The same with the time read.
cdef inline void trace_message(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                               uint64_t length, uint32_t number, int protocol,
                               int reason) noexcept nogil:
    trace_clock(e, ticks_now())
    trace_light(e, kind, peer, context, tag, length, number, protocol, reason)


# Something that belongs to no message: of `peer`, or of this rank.
cdef inline void trace_event(engine_t *e, int kind, uint32_t peer) noexcept nogil:
    trace_message(e, kind, peer, 0, 0, 0, 0, 0, 0)


# Something of operation `op`; the time is read by whoever calls this.
cdef inline void trace_op_light(engine_t *e, int kind, const op_t *op, uint64_t length,
                                uint32_t number, int error) noexcept nogil:
    cdef event_t *event = trace_next(e, kind)
    event.length = length
    event.op = op.index
    event.generation = op.generation
    event.peer = op.peer if op.kind == OP_SEND else op.source
    event.context = op.context
    event.tag = op.tag if op.kind == OP_SEND else op.source_tag
    event.number = number
    event.side = op.kind
    event.protocol = op.protocol
    event.reason = op.reason
    event.error = error
    event.cost = op.cost
    event.instead = op.instead
    event.line = op.line


cdef inline void trace_op(engine_t *e, int kind, const op_t *op, uint64_t length,
                          uint32_t number, int error) noexcept nogil:
    trace_clock(e, ticks_now())
    trace_op_light(e, kind, op, length, number, error)
