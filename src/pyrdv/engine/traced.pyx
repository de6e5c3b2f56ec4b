# cython: language_level=3
"""What the trace tells, for Python."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from pyrdv.engine.calls cimport engine_lock, engine_unlock
from pyrdv.engine.engine cimport Engine, op_copy
from pyrdv.engine.event cimport HEAD, SLOTS_WRITTEN, event_t
from pyrdv.engine.state cimport (
    ANY_PEER, ANY_TAG_, OP_COMPLETE, OP_DONE_ONLY, OP_FREE, OP_LANDING, OP_LANELESS, OP_MATCH,
    OP_PIPING, OP_POSTED, OP_QUEUED, OP_READING, OP_READY, OP_RECV, OP_RESERVED, OP_SCHEDULE,
    OP_SCHEDULED, OP_SEND, OP_SYNC, OP_WAITING, OP_WRITING, OPS_PER_SLAB, PROTOCOL_EAGER,
    REASON_PEER, REASON_SIZE, WAITS_HERE, engine_t, message_t, node_t, op_t)
from pyrdv.engine.trace cimport trace_line, trace_pair
from pyrdv.engine.wire cimport CONTENT_OBJECT

import os
import sys
from collections import namedtuple

from pyrdv import algorithms, recorded
from pyrdv.engine.choice import rule
from pyrdv.engine.protocols.table import names


cdef enum:
    FEW = 8                     # unexpected messages that are told one by one
    LINE_MOST = 512             # bytes of the name of a line


if recorded.HEAD != HEAD:
    raise ImportError("files of events begin in two ways")

STATES = {
    OP_QUEUED: "queued", OP_WAITING: "announced", OP_POSTED: "posted", OP_READY: "ready",
    OP_READING: "reading", OP_LANDING: "landing", OP_WRITING: "writing", OP_LANELESS: "laneless",
    OP_PIPING: "piping", OP_SCHEDULED: "scheduled",
}
# Frames of files below are not the program's.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
SIDES = {0: "", OP_SEND: "send", OP_RECV: "receive", OP_MATCH: "match", OP_SCHEDULE: "schedule"}

Operation = namedtuple("Operation", (
    "side", "state", "peer", "context", "tag", "nbytes", "protocol", "reason", "age", "line",
    "sync", "waits", "object"))
Operation.__doc__ = """A send or receive under way.

Attributes
----------
side : str
    As in `recorded.Event`.
state : str
    What comes next for it; a value of `STATES`, or ``told``: all is here but for telling the peer.
peer, context, tag, nbytes, protocol, reason, line
    As in `recorded.Event`.
age : float
    Seconds since it was posted.
sync, waits, object : bool
    Whether it is a synchronous send, whether somebody waits for it, and whether its message is
    known to be a Python object.
"""


def scale(Engine engine not None):
    """The counter as seconds, by what has passed since the engine was made; a `recorded.Scale`."""
    cdef engine_t *e = engine.c
    cdef int64_t ns = 0
    cdef uint64_t ticks = 0
    trace_pair(e, &ns, &ticks)
    passed = ticks - e.trace.ring.first_ticks
    return recorded.Scale(ticks, ns, (ns - e.trace.ring.first_ns) / passed if passed else 0.0)


cdef int note_line(Engine engine) except -1:
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    where = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)
    number = engine.line_numbers.get(where)
    if number is None:
        number = engine.line_numbers[where] = len(engine.lines)
        engine.lines.append(f"{os.path.basename(where[0])}:{where[1]}" if where[0] else "")
        text = engine.lines[number].encode("utf-8", "replace")[:LINE_MOST]
        engine_lock(&engine.c.lock)
        trace_line(engine.c, text, <uint32_t> len(text))
        engine_unlock(&engine.c.lock)
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
    clock = scale(engine)
    now = clock.ns * 1e-9
    known = words(engine)
    found = []
    for i in range(engine.c.op_slab_count * OPS_PER_SLAB):
        op_copy(engine.c, i, &seen)
        if op.state == OP_FREE or op.state == OP_COMPLETE or op.state == OP_RESERVED:
            continue
        sends = op.kind == OP_SEND
        state = "told" if op.state == OP_READY and op.flags & OP_DONE_ONLY else STATES[op.state]
        found.append(Operation(
            SIDES[op.kind], state, <int32_t> (op.peer if sends else op.source), op.context,
            op.tag if sends else op.source_tag,
            op.length if sends or op.state == OP_POSTED else op.total,
            known.protocols.get(op.protocol), known.reasons[op.reason] if op.reason else None,
            now - clock.seconds(op.posted) if op.posted else 0.0, line_of(engine, op.line),
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


cdef inline uint64_t recorded_kept(uint64_t count, uint64_t slots) noexcept nogil:
    # From the begin of an event on: that is at an even slot.
    return count if count <= slots else slots - (count & 1)


def words(Engine engine=None):
    """What the numbers of events mean, as `recorded.Words`; without an engine without lines."""
    reasons = {**rule.REASONS, **algorithms.REASONS}
    return recorded.Words(SIDES, {**names(), **algorithms.WORDS}, reasons,
                          (names()[PROTOCOL_EAGER], reasons[REASON_SIZE], reasons[REASON_PEER]),
                          [""] if engine is None or engine.lines is None else engine.lines)


def record(path, rank, size, host):
    """Make the file into which an engine writes its events (`recorded.create`).

    Returns
    -------
    int
        A descriptor.
    """
    return recorded.create(path, rank, size, host, words(), SLOTS_WRITTEN)


cdef object pending_posts(Engine engine, clock):
    """The posts of operations under way to which nothing else has happened (rule T3 of trace)."""
    cdef op_t op
    cdef uint32_t i
    found = []
    for i in range(engine.c.op_slab_count * OPS_PER_SLAB):
        op_copy(engine.c, i, &op)
        if op.state == OP_POSTED and not op.told:
            found.append(recorded.Event(
                clock.seconds(op.posted) if op.posted else clock.ns * 1e-9, "post", SIDES[op.kind],
                (op.index, op.generation), <int32_t> op.peer, op.context, op.tag, op.length, 0,
                None, None, 0.0, 0.0, 0, line_of(engine, op.line)))
    return found


def events(Engine engine not None):
    """What `engine` did last, the oldest first.

    Returns
    -------
    list of recorded.Event
        Of 2048 slots at most: an event of an eager message takes one, most others two.
    """
    cdef engine_t *e = engine.c
    cdef uint64_t slots = e.trace.mask + 1
    cdef uint64_t first, count, i
    cdef event_t *copy
    data = bytearray(slots * sizeof(event_t))
    copy = <event_t *> <char *> data
    engine_lock(&e.lock)
    count = recorded_kept(e.trace.count, slots)
    first = e.trace.count - count
    for i in range(count):
        copy[i] = e.trace.slots[(first + i) & e.trace.mask]
    engine_unlock(&e.lock)
    clock = scale(engine)
    found = list(recorded.decode(data[:count * sizeof(event_t)], words(engine), clock))
    return sorted([*found, *pending_posts(engine, clock)], key=lambda event: event.time)
