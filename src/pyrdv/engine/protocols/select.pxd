# cython: language_level=3
"""Which protocol a message takes.  Step-safe, under the lock."""
from libc.stdint cimport uint64_t

from pyrdv.engine.state cimport engine_t, peer_t

cdef enum protocol:
    PROTOCOL_EAGER = 1
    PROTOCOL_GET = 2

# Largest payload that goes eager to this peer when credits allow.
cdef uint64_t eager_limit(engine_t *e, peer_t *p) noexcept nogil
cdef int choose(engine_t *e, peer_t *p, uint64_t length) noexcept nogil
