# cython: language_level=3
"""What a step must leave to a call: connecting, registering, allocating.  Under the lock."""
from pyrdv.engine.state cimport call_t, engine_t, peer_t


cdef extern from "debug.h" nogil:
    void debug_assert(bint holds, const char *rule)


# The call that runs; NULL: this is a step by itself, and leaves what needs one to the next.
cdef inline call_t *call_running(const engine_t *e) noexcept nogil:
    return <call_t *> e if e.in_call else NULL


# The next call looks after `p`.
cdef inline void peer_call(engine_t *e, peer_t *p) noexcept nogil:
    if not p.calling:
        p.calling = 1
        p.next_calling = e.calling
        e.calling = p


# With PYRDV_DEBUG: `call` is the one that runs, and no step by itself got hold of it.
cdef inline void call_proven(const call_t *call) noexcept nogil:
    if call.engine.debug:
        debug_assert(call.engine.in_call, "R1: a step does what only a call may do")
