# cython: language_level=3
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport completion, fabric_t
from pyrdv.fabrics.verbs.state cimport link_t, verbs_t


# The operations of the contract.
cdef int verbs_poll(fabric_t *self, completion *out, int limit) noexcept nogil
cdef void verbs_release(fabric_t *self, uint32_t peer, int count) noexcept nogil

# step.  Take what the completion queues and rings hold into the links; number of completions.
cdef int drain(verbs_t *f) noexcept nogil
# step.  Whether poll would return something now; call `drain` first.
cdef bint deliverable(verbs_t *f) noexcept nogil
