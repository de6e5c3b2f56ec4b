# cython: language_level=3
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport completion, fabric_t
from pyrdv.fabrics.verbs.state cimport qp_t, verbs_t


# The operations of the contract.
cdef int verbs_poll(fabric_t *self, completion *out, int limit) noexcept nogil
cdef void verbs_release(fabric_t *self, uint32_t peer, int count) noexcept nogil

# step.  Post the receives that link.repost names to a queue pair of the link; 0 or an errno.
cdef int receives_post(verbs_t *f, qp_t *qp) noexcept nogil
# step.  Take what the completion queues and rings hold into the links; number of completions.
cdef int drain(verbs_t *f) noexcept nogil
# step.  Whether poll would return something now; call `drain` first.
cdef bint deliverable(verbs_t *f) noexcept nogil
