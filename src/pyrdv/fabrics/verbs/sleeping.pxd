# cython: language_level=3
from libc.stdint cimport int64_t

from pyrdv.fabrics.contract cimport fabric_t


# The operations of the contract.
cdef int verbs_arm(fabric_t *self) noexcept nogil
cdef void verbs_disarm(fabric_t *self) noexcept nogil
cdef int64_t verbs_watch(fabric_t *self) noexcept nogil
cdef int verbs_signals(fabric_t *self, int thread, int signal) noexcept nogil
cdef int verbs_maintain(fabric_t *self) noexcept nogil
