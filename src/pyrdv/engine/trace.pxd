# cython: language_level=3
"""The trace: what an engine did last.  It is always on, and under the engine's lock.

T1  An event is written into memory that exists, and nothing is waited for.  Only a call writes
    events to a file (`trace_due`); what was overwritten before one came is counted.
T2  To read the processor's counter costs as much as all else that an eager message does for the
    trace.  So its event takes the time at which the counter was read last: by who waits, by a send
    that nothing answered, by all other events, and by every 64th slot.  While the trace is to be
    written out (`exact`), events of eager messages read it, too.
T3  The post of an operation is recorded with what first happens to it, with the time that it had
    (`op.posted`): a receive of an eager message is one event.  The first look of its waiter at the
    clock is such a thing, and so is the end of the engine.
T4  A file has the ring itself, mapped, and what was in it before behind it.  So it says all that
    happened, even if its process is killed.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from pyrdv.engine.event cimport (
    TRACE_ANNOUNCE, TRACE_EAGER_EARLY, TRACE_EAGER_GOT, TRACE_EAGER_SENT, TRACE_MATCH,
    TRACE_UNEXPECTED, event_t)
from pyrdv.engine.state cimport (
    OP_RECV, PROTOCOL_EAGER, REASON_PEER, REASON_SIZE, engine_t, message_t, op_t)


cdef extern from "order.h" nogil:
    uint64_t glance64(const uint64_t *where)
    void note64(uint64_t *where, uint64_t value)
    void publish64(uint64_t *where, uint64_t value)

cdef extern from "ticks.h" nogil:
    uint64_t ticks_now()
    int64_t ticks_clock_ns()

cdef extern from "prefetch.h" nogil:
    void prefetch_write(const void *where)

cdef enum trace_time:           # where the time of events, and of what is measured, comes from
    TIME_READ = 0               # the system's clock
    TIME_COUNTED = 1            # the processor's counter, which is a clock
    TIME_TOLD = 2               # a test says what it is

cdef enum:
    SHORT = 1 << 24             # bytes of a message whose length fits into its event
    LONGEST = 0xFFFFFFFF        # ticks that fit into `waited`

# Get the ring, empty.  `fd`: a file to write it to, which has room for it behind HEAD bytes, and
# may have `most` bytes; -1: none.  OSError says why there is no ring.  Once, and given back once.
cdef int trace_start(engine_t *e, int fd, uint64_t most) except -1
cdef void trace_close(engine_t *e) noexcept nogil
# call.  Write what is not yet in the file, half a ring or more.
cdef void trace_write(engine_t *e) noexcept nogil
# call.  The same for the last time.
cdef void trace_end(engine_t *e) noexcept nogil
# call.  Write the text of the next line of the program that gets a number.
cdef void trace_line(engine_t *e, const char *text, uint32_t length) noexcept nogil
# A waiter sleeps.
cdef void trace_sleep(engine_t *e) noexcept nogil
# Something that belongs to no message: of `peer`, or of this rank.
cdef void trace_event(engine_t *e, int kind, uint32_t peer) noexcept nogil
# Something of a message, of which this side has no operation.
cdef void trace_message(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                        uint64_t length, uint32_t number, int protocol, int reason) noexcept nogil
# Something of operation `op`.
cdef void trace_op(engine_t *e, int kind, op_t *op, uint64_t length, uint32_t number,
                   int error) noexcept nogil
# Its post, if that was not recorded yet (T3).
cdef void trace_post(engine_t *e, op_t *op) noexcept nogil
# One moment by the counter, as events have it, and by the system's clock.
cdef void trace_pair(const engine_t *e, int64_t *ns, uint64_t *ticks) noexcept nogil


cdef inline uint64_t trace_now(const engine_t *e) noexcept nogil:
    if e.trace.counter == TIME_COUNTED:
        return ticks_now()
    if e.trace.counter == TIME_READ:
        return <uint64_t> ticks_clock_ns()
    # Each look takes a microsecond.
    (<engine_t *> e).trace.told += 1000
    return e.trace.told


# What `trace_now` counts in a microsecond.
cdef inline uint64_t trace_microsecond(const engine_t *e) noexcept nogil:
    return e.ticks.per_us if e.trace.counter == TIME_COUNTED else 1000


# Read the clock for whatever happens now.
cdef inline uint64_t trace_read(engine_t *e) noexcept nogil:
    cdef uint64_t now = trace_now(e)
    note64(&e.trace.clock, now)
    return now


# The processor's counter was just read.
cdef inline void trace_clock(engine_t *e, uint64_t ticks) noexcept nogil:
    note64(&e.trace.clock, ticks if e.trace.counter == TIME_COUNTED else trace_now(e))


# There are `count` slots now, all of them written.
cdef inline void trace_counts(engine_t *e, uint64_t count) noexcept nogil:
    e.trace.count = count
    if e.trace.exact:
        publish64(&e.trace.ring.count, count)


cdef inline void trace_due(engine_t *e) noexcept nogil:
    if e.trace.exact and e.trace.count >= e.trace.due:
        trace_write(e)


# An event of an eager message: one slot, half a line of the cache.
cdef inline void trace_short(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                             uint64_t length, uint32_t number, uint32_t waited) noexcept nogil:
    cdef uint64_t count = e.trace.count
    cdef event_t *slot = &e.trace.slots[count & e.trace.mask]
    prefetch_write(slot + 2)
    if count & 63 == 0:
        trace_read(e)
    slot.ticks = glance64(&e.trace.clock)
    slot.waited = waited
    slot.peer = peer
    slot.context = context
    slot.tag = tag
    slot.number = number
    slot.what = <uint32_t> kind | <uint32_t> length << 8
    trace_counts(e, count + 1)


cdef inline bint trace_brief(const engine_t *e, uint64_t length) noexcept nogil:
    return not e.trace.lined and length < SHORT


cdef inline void trace_exact(engine_t *e) noexcept nogil:
    if e.trace.exact:
        trace_read(e)


# An eager message was sent, without an operation.  Its receiver may have it already: who reads
# the trace must expect the event of a send behind that of its receive.
cdef inline void trace_sent(engine_t *e, uint32_t peer, uint32_t context, int32_t tag,
                            uint64_t length, uint32_t number) noexcept nogil:
    if trace_brief(e, length):
        trace_exact(e)
        trace_short(e, TRACE_EAGER_SENT, peer, context, tag, length, number, 0)
    else:
        trace_message(e, TRACE_ANNOUNCE, peer, context, tag, length, number, PROTOCOL_EAGER,
                      REASON_SIZE)


# Message `m` came, which nobody waits for.
cdef inline void trace_early(engine_t *e, const message_t *m) noexcept nogil:
    if m.protocol == PROTOCOL_EAGER and m.length < SHORT:
        trace_exact(e)
        trace_short(e, TRACE_EAGER_EARLY, m.peer, m.context, m.tag, m.length, m.number, 0)
    else:
        trace_message(e, TRACE_UNEXPECTED, m.peer, m.context, m.tag, m.length, m.number,
                      m.protocol, REASON_PEER)


# Receive `op` got its message; the envelope and the protocol are in it.
cdef inline void trace_got(engine_t *e, op_t *op, uint32_t number) noexcept nogil:
    cdef uint64_t waited = 0
    if op.protocol == PROTOCOL_EAGER and op.kind == OP_RECV and not op.told \
            and op.total <= op.length and trace_brief(e, op.total):
        trace_exact(e)
        if op.posted:
            waited = glance64(&e.trace.clock) - op.posted
        if waited <= LONGEST:
            op.told = 1
            trace_short(e, TRACE_EAGER_GOT, op.source, op.context, op.source_tag, op.total, number,
                        <uint32_t> waited)
            return
    trace_op(e, TRACE_MATCH, op, op.total, number, 0)
