# cython: language_level=3
from pyrdv.fabrics.contract cimport fabric_t


# The operations of the contract.
cdef int verbs_arm(fabric_t *self) noexcept nogil
cdef void verbs_disarm(fabric_t *self) noexcept nogil
cdef int verbs_maintain(fabric_t *self) noexcept nogil
