# cython: language_level=3
"""The ``call`` operations of the shm fabric (contract; details in the .pyx)."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from pyrdv.fabrics.contract cimport fabric_t, region
from pyrdv.fabrics.shm.channel cimport shm_t

cdef int shm_connect(fabric_t *base, uint32_t peer) noexcept nogil
cdef void shm_disconnect(fabric_t *base, uint32_t peer) noexcept nogil
cdef int shm_maintain(fabric_t *base) noexcept nogil
cdef int shm_arm(fabric_t *base) noexcept nogil
cdef void shm_disarm(fabric_t *base) noexcept nogil
cdef int64_t shm_watch(fabric_t *base) noexcept nogil
cdef int shm_signals(fabric_t *base, int thread, int signal) noexcept nogil
cdef int shm_register(fabric_t *base, void *address, uint64_t length, int access,
                      region *out) noexcept nogil
cdef void shm_deregister(fabric_t *base, region *which) noexcept nogil
# call.  Start watching the listening socket; 0 or -1 with errno.
cdef int control_open(shm_t *self) noexcept nogil
# call.  Close all descriptors and free all channels.
cdef void control_close(shm_t *self) noexcept nogil
