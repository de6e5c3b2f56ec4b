# cython: language_level=3
"""Superpipeline, the sender's side.  Step-safe, under the lock."""
from libc.stdint cimport uint64_t

from pyrdv.engine.protocols.lanes cimport lane_t
from pyrdv.engine.state cimport engine_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t
from pyrdv.fabrics.contract cimport completion

# Send `op` was announced as one whose data cannot be read: copy its first chunk meanwhile.
cdef void pipe_announced(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# A GRANT, a TAKEN arrived (``contract``).
cdef int grant_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil
cdef int taken_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil
# A granted send got a lane (FABRIC_OK), must wait for one (AGAIN), or gets none.
cdef void grant_follow(engine_t *e, peer_t *p, op_t *op, int status) noexcept nogil
# A WRITE of a lane ended; False: the peer gave standing buffers that are not there.
cdef bint pipe_written(engine_t *e, const completion *c) noexcept nogil
# Tell the receiver of ready send `op` that its data will not come; `served`.
cdef int pipe_refuse(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# Copy in and post what can be, within `budget` bytes; how many things happened.
cdef int send_turn(engine_t *e, peer_t *p, lane_t *lane, uint64_t *budget) noexcept nogil
