# cython: language_level=3
"""What the trace tells, for Python."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from pyrdv.engine.calls cimport engine_lock, engine_unlock
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.event cimport (
    EVENTS, NO_OPERATION, TRACE_ANNOUNCE, TRACE_BEGIN, TRACE_CHOOSE, TRACE_CLOSED, TRACE_COMPLETE,
    TRACE_CREDIT, TRACE_DROPPED, TRACE_END, TRACE_LOST, TRACE_MATCH, TRACE_OFFER, TRACE_POST,
    TRACE_QUEUE, TRACE_REGISTER, TRACE_SLEEP, TRACE_UNEXPECTED, TRACE_USED, TRACE_WAKE, event_t)
from pyrdv.engine.state cimport OP_MATCH, OP_RECV, OP_SEND, engine_t
from pyrdv.engine.trace cimport ticks_now

from collections import namedtuple

from pyrdv.engine.choice import choose
from pyrdv.engine.protocols.table import names


cdef extern from "ticks.h" nogil:
    int64_t ticks_clock_ns()


#: The kinds of events.
KINDS = {
    TRACE_POST: "post", TRACE_CHOOSE: "choose", TRACE_REGISTER: "register",
    TRACE_CREDIT: "credit wait", TRACE_QUEUE: "queue", TRACE_ANNOUNCE: "announce",
    TRACE_MATCH: "match", TRACE_UNEXPECTED: "unexpected", TRACE_BEGIN: "transfer begin",
    TRACE_END: "transfer end", TRACE_COMPLETE: "complete", TRACE_OFFER: "offer sent",
    TRACE_USED: "offer used", TRACE_DROPPED: "offer dropped", TRACE_SLEEP: "sleep",
    TRACE_WAKE: "wake", TRACE_LOST: "peer lost", TRACE_CLOSED: "peer closed",
}
SIDES = {0: "", OP_SEND: "send", OP_RECV: "receive", OP_MATCH: "match"}

Event = namedtuple("Event", (
    "time", "kind", "side", "operation", "peer", "context", "tag", "nbytes", "number", "protocol",
    "reason", "cost", "instead", "error"))
Event.__doc__ = """What happened once in an engine.

Attributes
----------
time : float
    Seconds of `time.monotonic`.  That of an eager message may be earlier than it was: it is when
    the engine last read the clock (rule T2 of ``engine/trace.pxd``).
kind : str
    One of `KINDS`.
side : str
    ``send``, ``receive``, ``match`` (a receive that only takes the message) or empty.
operation : tuple of int, int or None
    What tells operations apart: place and generation.
peer : int
    World rank of the other side; -1: any, or none.
context, tag : int
    Of the message.
nbytes : int
    Length of the message, of the room of a receive that has none yet, or of what moves.
number : int
    Which announcement it is, of those from its sender to its receiver (announce, match,
    unexpected).
protocol, reason : str or None
    As chosen until then; None: not chosen.
cost, instead : float
    Seconds that the choice reckoned with; 0: nothing was compared.
error : int
    Status of `errors.from_status`, or 0.
"""


cdef struct clock_t:            # ticks as seconds of the system's clock
    uint64_t ticks              # now
    int64_t ns                  # the same
    double ns_per_tick          # by what has passed of both since the start


cdef clock_t clock_of(const engine_t *e) noexcept nogil:
    cdef clock_t clock
    cdef double passed
    clock.ns = ticks_clock_ns()
    clock.ticks = ticks_now()
    passed = <double> (clock.ticks - e.ticks.first_ticks)
    clock.ns_per_tick = (clock.ns - e.ticks.first_ns) / passed if passed > 0 else 0
    return clock


cdef double seconds(const clock_t *clock, uint64_t ticks) noexcept nogil:
    return (clock.ns - <double> <int64_t> (clock.ticks - ticks) * clock.ns_per_tick) * 1e-9


def events(Engine engine not None):
    """What `engine` did last, the oldest first.

    Returns
    -------
    list of Event
        `EVENTS` at most.
    """
    cdef engine_t *e = engine.c
    cdef event_t *copy = <event_t *> malloc(EVENTS * sizeof(event_t))
    cdef const event_t *at
    cdef uint64_t first, count, i
    cdef clock_t clock
    if copy == NULL:
        raise MemoryError
    engine_lock(&e.lock)
    count = min(e.trace.count, <uint64_t> EVENTS)
    first = e.trace.count - count
    for i in range(count):
        copy[i] = e.trace.events[(first + i) & (EVENTS - 1)]
    engine_unlock(&e.lock)
    clock = clock_of(e)
    protocols = names()
    found = []
    for i in range(count):
        at = &copy[i]
        found.append(Event(
            seconds(&clock, at.ticks), KINDS[at.kind], SIDES[at.side],
            None if at.op == NO_OPERATION else (at.op, at.generation), <int32_t> at.peer,
            at.context, at.tag, at.length, at.number, protocols.get(at.protocol),
            choose.REASONS[at.reason] if at.reason else None, at.cost, at.instead, at.error))
    free(copy)
    return found
