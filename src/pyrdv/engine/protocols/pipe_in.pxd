# cython: language_level=3
"""Superpipeline, the receiver's side.  Step-safe, under the lock."""
from libc.stdint cimport uint64_t

from pyrdv.engine.protocols.lanes cimport lane_t
from pyrdv.engine.state cimport engine_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t

# Matched receive `op` takes its data through a lane, now or later.
cdef void pipe_receive(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# It got its lane; or there is none, and its sender must be told.
cdef void receive_begin(engine_t *e, op_t *op) noexcept nogil
cdef void receive_refused(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# A CHUNK arrived (``contract``).
cdef int chunk_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil
# Copy out and post what can be, within `budget` bytes; how many things happened.
cdef int receive_turn(engine_t *e, peer_t *p, lane_t *lane, uint64_t *budget) noexcept nogil
