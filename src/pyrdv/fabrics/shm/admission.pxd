# cython: language_level=3
"""Who may come in at the doors, and what is watched (see .pyx).  All are ``call``."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from pyrdv.fabrics.shm.channel cimport shm_t


cdef enum watched:
    # What an epoll event is about: kind << 32 | rank.
    WATCH_DOOR = 0
    WATCH_CALLER = 1
    WATCH_OUT = 2
    WATCH_INTO = 3
    WATCH_TIMER = 4

# Add `fd` to what wake_fd tells of; 0 or -1 with errno.
cdef int watch(shm_t *self, int fd, uint64_t kind, uint32_t rank) noexcept nogil
# Close `fd`, -1 is allowed, also where the description lives on in a forked child.
cdef void unwatch(shm_t *self, int fd) noexcept nogil
# Watch both doors; 0 or -1 with errno.
cdef int admission_open(shm_t *self) noexcept nogil
cdef void admission_close(shm_t *self) noexcept nogil
# No peer comes by the public door (D2).
cdef void close_public(shm_t *self) noexcept nogil
# Take some of those who wait; how many channels came.
cdef int admit_some(shm_t *self) noexcept nogil
# Take all whose connection is there now, whoever else waits (A5).
cdef void admit_all(shm_t *self) noexcept nogil
# The timer went off.
cdef void admission_timer(shm_t *self) noexcept nogil
# Before sleeping: what is postponed must wake this end (A4, F8).
cdef void admission_arm(shm_t *self) noexcept nogil
