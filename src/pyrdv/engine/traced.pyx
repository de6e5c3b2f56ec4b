# cython: language_level=3
"""What the trace tells, for Python."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from pyrdv.engine.calls cimport engine_lock, engine_unlock
from pyrdv.engine.engine cimport Engine, op_copy
from pyrdv.engine.event cimport (
    NO_OPERATION, TRACE_ANNOUNCE, TRACE_BEGIN, TRACE_CHOOSE, TRACE_CLOSED, TRACE_COMPLETE,
    TRACE_CREDIT, TRACE_DROPPED, TRACE_END, TRACE_LOST, TRACE_MATCH, TRACE_OFFER, TRACE_POST,
    TRACE_QUEUE, TRACE_REGISTER, TRACE_SLEEP, TRACE_UNEXPECTED, TRACE_USED, TRACE_WAKE, event_t)
from pyrdv.engine.state cimport (
    ANY_PEER, ANY_TAG_, OP_COMPLETE, OP_DONE_ONLY, OP_FREE, OP_LANDING, OP_LANELESS, OP_MATCH,
    OP_PIPING, OP_POSTED, OP_QUEUED, OP_READING, OP_READY, OP_RECV, OP_SEND, OP_SYNC, OP_WAITING,
    OP_WRITING, OPS_PER_SLAB, WAITS_HERE, engine_t, message_t, node_t, op_t)
from pyrdv.engine.wire cimport CONTENT_OBJECT

import os
import sys
from collections import namedtuple

from pyrdv.engine.choice import rule
from pyrdv.engine.protocols.table import names


cdef extern from "ticks.h" nogil:
    void ticks_pair(int64_t *ns, uint64_t *ticks)

cdef enum:
    FEW = 8                     # unexpected messages that are told one by one


#: The kinds of events.
KINDS = {
    TRACE_POST: "post", TRACE_CHOOSE: "choose", TRACE_REGISTER: "register",
    TRACE_CREDIT: "credit wait", TRACE_QUEUE: "queue", TRACE_ANNOUNCE: "announce",
    TRACE_MATCH: "match", TRACE_UNEXPECTED: "unexpected", TRACE_BEGIN: "transfer begin",
    TRACE_END: "transfer end", TRACE_COMPLETE: "complete", TRACE_OFFER: "offer sent",
    TRACE_USED: "offer used", TRACE_DROPPED: "offer dropped", TRACE_SLEEP: "sleep",
    TRACE_WAKE: "wake", TRACE_LOST: "peer lost", TRACE_CLOSED: "peer closed",
}
STATES = {
    OP_QUEUED: "queued", OP_WAITING: "announced", OP_POSTED: "posted", OP_READY: "ready",
    OP_READING: "reading", OP_LANDING: "landing", OP_WRITING: "writing", OP_LANELESS: "laneless",
    OP_PIPING: "piping",
}
# Frames of files below are not the program's.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
SIDES = {0: "", OP_SEND: "send", OP_RECV: "receive", OP_MATCH: "match"}

Event = namedtuple("Event", (
    "time", "kind", "side", "operation", "peer", "context", "tag", "nbytes", "number", "protocol",
    "reason", "cost", "instead", "error", "line"))
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
line : str
    FILE:LINE of the program that posted it; empty: not noted (`Engine.note_lines`).
"""

Operation = namedtuple("Operation", (
    "side", "state", "peer", "context", "tag", "nbytes", "protocol", "reason", "age", "line",
    "sync", "waits", "object"))
Operation.__doc__ = """A send or receive under way.

Attributes
----------
side : str
    As in `Event`.
state : str
    What comes next for it; a value of `STATES`, or ``told``: all is here but for telling the peer.
peer, context, tag, nbytes, protocol, reason, line
    As in `Event`.
age : float
    Seconds since it was posted.
sync, waits, object : bool
    Whether it is a synchronous send, whether somebody waits for it, and whether its message is
    known to be a Python object.
"""


cdef struct clock_t:            # ticks as seconds of the system's clock
    uint64_t ticks              # now
    int64_t ns                  # the same
    double ns_per_tick          # by what has passed of both since the start


cdef clock_t clock_of(const engine_t *e) noexcept nogil:
    cdef clock_t clock
    cdef double passed
    ticks_pair(&clock.ns, &clock.ticks)
    passed = <double> (clock.ticks - e.ticks.first_ticks)
    clock.ns_per_tick = (clock.ns - e.ticks.first_ns) / passed if passed > 0 else 0
    return clock


cdef double seconds(const clock_t *clock, uint64_t ticks) noexcept nogil:
    return (clock.ns - <double> <int64_t> (clock.ticks - ticks) * clock.ns_per_tick) * 1e-9


cdef int note_line(Engine engine) except -1:
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    where = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)
    number = engine.line_numbers.get(where)
    if number is None:
        number = engine.line_numbers[where] = len(engine.lines)
        engine.lines.append(f"{os.path.basename(where[0])}:{where[1]}" if where[0] else "")
    engine.c.trace.line = number
    return 0


cdef str line_of(Engine engine, uint32_t line):
    return engine.lines[line] if engine.lines is not None else ""


def operations(Engine engine not None):
    """What is under way, the oldest first.

    Returns
    -------
    list of Operation
    """
    cdef op_t seen
    cdef const op_t *op = &seen
    cdef uint32_t i
    cdef clock_t clock = clock_of(engine.c)
    protocols = names()
    found = []
    for i in range(engine.c.op_slab_count * OPS_PER_SLAB):
        op_copy(engine.c, i, &seen)
        if op.state == OP_FREE or op.state == OP_COMPLETE:
            continue
        sends = op.kind == OP_SEND
        state = "told" if op.state == OP_READY and op.flags & OP_DONE_ONLY else STATES[op.state]
        found.append(Operation(
            SIDES[op.kind], state, <int32_t> (op.peer if sends else op.source), op.context,
            op.tag if sends else op.source_tag,
            op.length if sends or op.state == OP_POSTED else op.total,
            protocols.get(op.protocol), rule.REASONS[op.reason] if op.reason else None,
            (clock.ns * 1e-9 - seconds(&clock, op.posted)), line_of(engine, op.line),
            op.flags & OP_SYNC != 0, op.waits & WAITS_HERE != 0, op.content == CONTENT_OBJECT))
    return sorted(found, key=lambda operation: -operation.age)


cdef uint32_t unexpected_copy(engine_t *e, message_t *out) noexcept nogil:
    """The first `FEW` messages that nobody has asked for; returns how many were copied."""
    cdef uint32_t b
    cdef uint32_t count = 0
    cdef const node_t *leader
    cdef const node_t *at
    for b in range(e.unexpected.mask + 1):
        leader = e.unexpected.buckets[b]
        while leader != NULL:
            at = leader if leader.peer == ANY_PEER and leader.tag == ANY_TAG_ else NULL
            while at != NULL and count < FEW:
                out[count] = (<message_t *> at.entry)[0]
                count += 1
                at = at.next
            leader = leader.chain
    return count


def unexpected(Engine engine not None):
    """Messages that came and that nobody has asked for.

    Returns
    -------
    tuple of int, list of tuple
        How many there are, and of some of them world rank of the sender, context, tag and bytes.
    """
    cdef message_t few[FEW]
    cdef engine_t *e = engine.c
    cdef uint32_t i, count, found
    engine_lock(&e.lock)
    count = e.unexpected.entries // 4
    found = unexpected_copy(e, &few[0])
    engine_unlock(&e.lock)
    return count, [(few[i].peer, few[i].context, few[i].tag, few[i].length) for i in range(found)]


def lost(Engine engine not None):
    """How many events are not remembered any more."""
    return max(0, <int64_t> engine.c.trace.count - <int64_t> engine.c.trace.mask - 1)


def events(Engine engine not None):
    """What `engine` did last, the oldest first.

    Returns
    -------
    list of Event
        2048 at most, and 131072 if they are to be written out.
    """
    cdef engine_t *e = engine.c
    cdef event_t *copy = <event_t *> malloc((e.trace.mask + 1) * sizeof(event_t))
    cdef const event_t *at
    cdef uint64_t first, count, i
    cdef clock_t clock
    if copy == NULL:
        raise MemoryError
    engine_lock(&e.lock)
    count = min(e.trace.count, e.trace.mask + 1)
    first = e.trace.count - count
    for i in range(count):
        copy[i] = e.trace.events[(first + i) & e.trace.mask]
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
            rule.REASONS[at.reason] if at.reason else None, at.cost, at.instead, at.error,
            line_of(engine, at.line if at.op != NO_OPERATION or at.kind == TRACE_ANNOUNCE else 0)))
    free(copy)
    return found
