# cython: language_level=3
"""Placed: a message is written into buffers that its receiver has set aside, without asking.
Step-safe unless marked *call*."""
from libc.stdint cimport uint64_t

from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.protocols.lanes cimport lane_t
from pyrdv.engine.state cimport engine_t, op_t, peer_t

# Do messages with `p` have this protocol at all?  The same on both sides.
cdef bint place_able(const engine_t *e, const peer_t *p) noexcept nogil
# Does `p` have buffers here for messages of `length` bytes, or may it get some?
cdef bint place_welcome(const engine_t *e, const peer_t *p, uint64_t length) noexcept nogil
# Is there a buffer for a message of `length` bytes?
cdef bint place_ready(const peer_t *p, uint64_t length) noexcept nogil
# Copy the data of `op` into it; its announcement follows before anything else here.
cdef void place_fill(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# `op` will not be announced.
cdef void place_drop(peer_t *p, const op_t *op) noexcept nogil
# Do messages to `p` leave from `lane`?
cdef bint place_lane(const peer_t *p, const lane_t *lane) noexcept nogil
# A message came by rendezvous that had better been placed.
cdef void stand_consider(engine_t *e, peer_t *p) noexcept nogil

cdef protocol_t *placed_protocol() noexcept nogil
