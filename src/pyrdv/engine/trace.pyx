# cython: language_level=3
"""The trace: the ring of an engine, and what of it is too long for the header."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from pyrdv.engine.event cimport EVENTS, EVENTS_WRITTEN, TRACE_SLEEP, TRACE_WAKE, event_t
from pyrdv.engine.state cimport ANY_PEER, engine_t


cdef enum:
    LINE = 64                   # of the cache

if sizeof(event_t) != LINE:
    raise ImportError(f"an event of the trace has {sizeof(event_t)} bytes, not {LINE}")


cdef int trace_open(engine_t *e, bint exact) noexcept nogil:
    # From fresh pages, which take memory only once they are used.
    cdef uint64_t start
    e.trace.exact = exact
    e.trace.mask = (EVENTS_WRITTEN if exact else EVENTS) - 1
    e.trace.memory = calloc(e.trace.mask + 2, LINE)
    if e.trace.memory == NULL:
        return -1
    start = (<uint64_t> e.trace.memory + LINE - 1) // LINE * LINE
    e.trace.events = <event_t *> start
    trace_clock(e, ticks_now())
    return 0


cdef void trace_close(engine_t *e) noexcept nogil:
    free(e.trace.memory)
    e.trace.memory = e.trace.events = NULL


cdef void trace_sleep(engine_t *e) noexcept nogil:
    # Slices of one sleep, between which nothing happened, are one.
    cdef uint64_t last = (e.trace.count - 1) & e.trace.mask
    if e.trace.count and e.trace.events[last].kind == TRACE_WAKE:
        e.trace.count -= 1
    else:
        trace_event(e, TRACE_SLEEP, ANY_PEER)
