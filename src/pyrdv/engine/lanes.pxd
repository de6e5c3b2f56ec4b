# cython: language_level=3
"""Lanes: registered bounce buffers of the superpipeline.  Under the lock; step-safe unless marked
*call*."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport call_t, engine_t, lane_t, op_t, peer_t

cdef struct lane_peer_t:        # what the superpipeline keeps of a peer; [0] sending, [1] receiving
    uint32_t used[2]            # lanes in use with it
    op_t *head[2]               # operations that wait for one
    op_t *tail[2]
    peer_t *next                # engine.laneless
    uint8_t waiting             # it is in that list

# What `Engine` is told of `DEFAULTS`, a dict; TypeError, ValueError.
cdef int lanes_configure(engine_t *e, given) except -1
# call.  Have lanes for messages with `p` before other memory is registered, where that can fail.
cdef void lanes_keep(call_t *call, peer_t *p) noexcept nogil
# call.  Have a lane of that direction for messages with `p`; False: there can be none now.
cdef bint lane_reserve(call_t *call, peer_t *p, bint receiving) noexcept nogil
# call.  Have a free one that `p` may use as it is (B4), so a step can take it; False: as above.
cdef bint lane_spare(call_t *call, peer_t *p, bint receiving) noexcept nogil
# call.  A lane of that direction for standing buffers of `p`, which is in no pool; NULL: there can
# be none.
cdef lane_t *lane_stand(call_t *call, peer_t *p, bint receiving) noexcept nogil
# Such a lane is for another peer; nothing is under way in it, and its peer is gone.
cdef void lane_unstand(engine_t *e, lane_t *lane) noexcept nogil
# Would a message with `p` get a lane of that direction at once, as it is (B4)?
cdef bint lane_idle(engine_t *e, peer_t *p, bint receiving) noexcept nogil
# A lane for `op`, which leads the next transfer with `p`; a fabric_status.  AGAIN: later,
# FAILED: there is none and there will be none.
cdef int lane_take(engine_t *e, peer_t *p, op_t *op, bint receiving) noexcept nogil
# A lane for a send that was announced but not granted: only one that is free.  It may be taken
# away again.
cdef bint lane_early(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# Nothing of its last operation is under way: back to the pool.
cdef void lane_free(engine_t *e, lane_t *lane) noexcept nogil
# Whether all that GRANT asked of send `op` was posted.
cdef bint lane_through(const op_t *op) noexcept nogil
# `op` waits for a lane; and what waits for one longest, taken off the queue (NULL: nothing).
cdef void lane_wait(engine_t *e, peer_t *p, op_t *op, bint receiving) noexcept nogil
cdef op_t *lane_next(peer_t *p, bint receiving) noexcept nogil
# Operations with `p` wait for lanes.
cdef void lanes_awaited(engine_t *e, peer_t *p) noexcept nogil
# The id of a WRITE from a buffer of a lane; and the lane that an id names, or NULL.
cdef uint64_t lane_id(const lane_t *lane, uint32_t buffer) noexcept nogil
cdef lane_t *lane_lookup(engine_t *e, uint64_t ident) noexcept nogil
# The i-th buffer of a lane.
cdef char *lane_buffer(engine_t *e, const lane_t *lane, uint64_t i) noexcept nogil
