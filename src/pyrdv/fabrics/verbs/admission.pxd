# cython: language_level=3
"""How much work strangers can make (see .pyx)."""
from libc.stdint cimport int64_t

from pyrdv.fabrics.verbs.state cimport verbs_t


# All are ``call``.

# Open the door: the event channel of the listeners.  0, or -1 with errno.
cdef int door_open(verbs_t *f) noexcept nogil
# Close it, once the listeners are gone.
cdef void door_close(verbs_t *f) noexcept nogil
# The descriptor to be looked at, -1 while the door is left alone; `now` may end that.
cdef int door_fd(verbs_t *f, int64_t now) noexcept nogil
# A request came that was none of the job's.
cdef void count_stranger(verbs_t *f) noexcept nogil
