# cython: language_level=3
"""Transfers through shared cells, where single copy is forbidden (see .pyx)."""
from libc.stdint cimport uint64_t

from pyrdv.fabrics.shm.channel cimport inbound_t, node_t, outbound_t, shm_t

# step.  The channel's cells are free: hand the transfer to the peer.
cdef void stage_begin(shm_t *self, outbound_t *out, node_t *node) noexcept nogil
# step.  Move what can be moved of out.staged, at most one chunk; `moved` gets
# the bytes.  FABRIC_AGAIN while it goes on, else its status.
cdef int stage_turn(shm_t *self, outbound_t *out, uint64_t *moved) noexcept nogil
# step.  Whether stage_turn would do something.
cdef bint stage_ready(outbound_t *out) noexcept nogil
# step.  The peer's side: serve its transfer, at most one chunk.  Bytes moved;
# -1: the peer broke the protocol.
cdef int stage_serve(shm_t *self, inbound_t *into) noexcept nogil
# step.  Whether stage_serve would do something.
cdef bint serve_ready(inbound_t *into) noexcept nogil
