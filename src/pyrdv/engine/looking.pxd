# cython: language_level=3
"""Whether peers live, asked by calls that never wait.  Under the lock; call, outside of a turn."""
from libc.stdint cimport int32_t, uint64_t

from pyrdv.engine.state cimport call_t, engine_t, peer_t
from pyrdv.engine.trace cimport ticks_now, trace_clock


# Look after the peers if that was not done for `engine.look_ns`.
cdef inline void look_after(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef uint64_t now = ticks_now()
    trace_clock(e, now)
    if now - e.looked >= e.look_ticks:
        look(call)

# Set how often; 0: by turns only.
cdef void look_every(engine_t *e, uint64_t ns) noexcept nogil
# Look after the peers now.
cdef void look(call_t *call) noexcept nogil
# `p` cannot be connected to: it ends, unless only this side lacks something.  Returns OP_PEER_LOST.
cdef int32_t peer_unreachable(call_t *call, peer_t *p) noexcept nogil
