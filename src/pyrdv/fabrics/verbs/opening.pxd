# cython: language_level=3
"""Opening a fabric (see .pyx)."""
from libc.stdint cimport uint16_t

from pyrdv.fabrics.verbs.librdmacm cimport sockaddr_storage
from pyrdv.fabrics.verbs.state cimport verbs_t


# All are ``call``, and return 0, or -1 with errno.

# Have `fd` not block, and be a part of wake_fd.
cdef int unblocking(int fd) noexcept nogil
cdef int watch(verbs_t *f, int fd) noexcept nogil
# Open the event channel, but not the door, and what wake_fd is made of.
cdef int connection_open(verbs_t *f) noexcept nogil
# One more listener; the device of the first becomes f.context.  *port gets its port.
# -1 with ENODEV: the address belongs to another device, see connection_device.
cdef int connection_listen(verbs_t *f, const char *device, sockaddr_storage *where,
                           uint16_t *port) noexcept nogil
# Take the device into use, once there is a listener.
cdef int connection_prepare(verbs_t *f) noexcept nogil
