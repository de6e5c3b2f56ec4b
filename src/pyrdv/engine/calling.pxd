# cython: language_level=3
"""What a step must leave to a call: connecting, registering, ending operations.  Under the lock."""
from pyrdv.engine.state cimport engine_t, peer_t


# The next call looks after `p`.
cdef inline void peer_call(engine_t *e, peer_t *p) noexcept nogil:
    if not p.calling:
        p.calling = 1
        p.next_calling = e.calling
        e.calling = p
