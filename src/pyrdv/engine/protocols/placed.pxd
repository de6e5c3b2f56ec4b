# cython: language_level=3
"""Placed: a message is written into buffers that its receiver has set aside, without asking.
Step-safe unless marked *call*."""
from libc.stdint cimport uint64_t

from pyrdv.engine.state cimport engine_t, message_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t, rts_t

# Do messages with `p` have this protocol at all?  The same on both sides.
cdef bint place_able(const engine_t *e, const peer_t *p) noexcept nogil
# Is there a buffer for a message of `length` bytes?
cdef bint place_ready(const peer_t *p, uint64_t length) noexcept nogil
# Copy the data of `op` into it; place_post of the same `op` follows before anything else here.
cdef void place_fill(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# `op` will not be announced.
cdef void place_drop(peer_t *p, const op_t *op) noexcept nogil
# WRITE and announce; the send is complete, if it is not SYNC.  A fabric_status.
cdef int place_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# The peer's STAND; False: it broke the rules.
cdef bint stand_arrived(engine_t *e, peer_t *p, const rts_t *stand) noexcept nogil
# A message came by rendezvous that had better been placed.
cdef void stand_consider(engine_t *e, peer_t *p) noexcept nogil
# call.  Make the buffers that are wanted, of either direction.
cdef void stand_act(engine_t *e, peer_t *p) noexcept nogil
# The peer is gone: nothing is placed any more, and its buffers are for others.
cdef void stand_end(engine_t *e, peer_t *p) noexcept nogil
# Post STAND if it is owed.
cdef void stand_serve(engine_t *e, peer_t *p) noexcept nogil
# Announcement PLACED: 1, taken; 0, no memory, it stays with the fabric; -1, it broke the rules.
cdef int placed_arrived(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
# Receive `op` takes message `m`, which is in no queue any more.
cdef void placed_deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil
