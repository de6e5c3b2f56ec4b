# cython: language_level=3
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.fabrics.contract cimport fabric_t, region
from pyrdv.fabrics.verbs.state cimport verbs_t


# The operations of the contract.
cdef int verbs_register(fabric_t *self, void *address, uint64_t length, int access,
                        region *out) noexcept nogil
cdef void verbs_deregister(fabric_t *self, region *which) noexcept nogil
cdef void verbs_flush(fabric_t *self) noexcept nogil
# call.  Give the regions that steps have dropped back to the device; how many.
cdef int memory_flush(verbs_t *f) noexcept nogil
# call.  Give back everything; the device is being closed.
cdef void memory_close(verbs_t *f) noexcept nogil
# step.  Local key of a live region that holds [address, address+length); False: there is none.
cdef bint memory_lkey(const verbs_t *f, uint64_t key, const void *address, uint64_t length,
                      uint32_t *lkey) noexcept nogil
