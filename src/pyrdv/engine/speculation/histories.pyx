# cython: language_level=3
"""What an engine knows of its envelopes, for Python: see ``history`` and ``saved``."""
from libc.stdint cimport uint32_t

from pyrdv.engine.calls cimport call_begin, call_end, engine_lock, engine_unlock
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.speculation.history cimport history_forbid
from pyrdv.engine.state cimport call_t, usage_t


def record(Engine engine not None):
    """Have `engine` count from now on how the RTRs of each envelope fare."""
    engine.c.recording = 1


def recorded(Engine engine not None):
    """What was counted: list of (context, source, tag, RTRs sent, RTRs used)."""
    cdef uint32_t i
    cdef usage_t *at
    found = []
    engine_lock(&engine.c.lock)
    for i in range(engine.c.usage_slots):
        at = &engine.c.usage[i]
        if at.sent:
            found.append((at.context, at.peer, at.tag, at.sent, at.used))
    engine_unlock(&engine.c.lock)
    return found


def forbid(Engine engine not None, envelopes):
    """Have `engine` send no RTRs of these envelopes: an iterable of (context, source, tag)."""
    cdef call_t *call
    cdef bint well
    for context, source, tag in envelopes:
        call = call_begin(engine.c)
        well = history_forbid(call, context, source, tag)
        call_end(call)
        if not well:
            raise MemoryError
