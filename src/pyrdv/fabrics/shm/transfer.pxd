# cython: language_level=3
"""READ and WRITE work requests and the SENDs that wait for them (see .pyx)."""
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport completion, work_request
from pyrdv.fabrics.shm.channel cimport shm_t

# step.  Queue a READ or WRITE, or a SEND that must wait; a node is free
# (self.free_count) and the peer is connected.  `waits`: as if it had WR_FENCE.
cdef void transfer_add(shm_t *self, uint32_t peer, const work_request *request,
                       bint waits) noexcept nogil
# step.  The whole chain was added: start those of its transfers that need not wait.
cdef void transfer_go(shm_t *self, uint32_t peer) noexcept nogil
# step.  One bounded turn of copying: own transfers, else help a peer.
cdef void transfer_turn(shm_t *self) noexcept nogil
# step.  End everything that was posted to a peer that is gone.
cdef void transfer_flush(shm_t *self, uint32_t peer) noexcept nogil
# step.  Move ended transfers to the caller's array; how many.
cdef int transfer_report(shm_t *self, completion *out, int limit) noexcept nogil
# call.  Whether transfer_turn or transfer_report would do something.
cdef bint transfer_ready(shm_t *self) noexcept nogil
