# cython: language_level=3
"""Which protocol a message takes.  Under the lock; step-safe."""
from libc.stdint cimport uint64_t

from pyrdv.engine.state cimport engine_t, op_t, peer_t

cdef enum protocol:
    PROTOCOL_EAGER = 1
    PROTOCOL_RENDEZVOUS = 2

# Largest payload that goes eager to this peer when credits allow.
cdef uint64_t eager_limit(engine_t *e, peer_t *p) noexcept nogil
cdef int choose(engine_t *e, peer_t *p, uint64_t length) noexcept nogil
# Should send `op`, which is announced next, be placed?  Then its data is in a standing buffer now,
# and place_post follows.
cdef bint place_try(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# A message of `length` bytes came by RTS: does its sender want for standing buffers?
cdef void place_missed(engine_t *e, peer_t *p, uint64_t length) noexcept nogil
# Have send `op` ready to be announced as a rendezvous: registered, or marked OP_PIPED.  A
# fabric_status; AGAIN: only a call can do it; FAILED: its memory can neither be registered nor
# copied.
cdef int prepare(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# call.  Should receive `op`, whose data could be read, rather be granted a lane?
cdef bint receive_piped(engine_t *e, peer_t *p, op_t *op, uint64_t length) noexcept nogil
