# cython: language_level=3
"""What the system, or the device, refuses to a connection at this end (see .pyx)."""
from libc.stdint cimport int64_t, uint32_t

from pyrdv.fabrics.verbs.state cimport LINK_NEW, link_t, verbs_t


# All are ``call``.  A problem is what link_equip returns.

# Whether nothing was sent for `link` yet, on either side: it lacks something, or waits for a
# request of the peer with what it has got.
cdef inline bint idle(const link_t *link) noexcept nogil:
    return link.lack or link.state == LINK_NEW and not link.active

# Whether an errno of the connection manager says that this process has reached a limit.
cdef bint is_lack(int error) noexcept nogil
# A connection to `peer` cannot be made, or one from it not be taken, because of `problem`.
# `link`: what there is of it; NULL: nothing.
cdef void connect_lacks(verbs_t *f, uint32_t peer, link_t *link, int problem) noexcept nogil
cdef void accept_lacks(verbs_t *f, uint32_t peer, link_t *link, int problem) noexcept nogil
# Whether the peer of `link`, which lacks something to connect, has asked for that connection (J7),
# and not too long ago: then each maintain tries.
cdef bint asked_for(verbs_t *f, link_t *link, int64_t now) noexcept nogil
# `link` has got what it lacked.
cdef void lacks_nothing(verbs_t *f, link_t *link) noexcept nogil
# Time passed for an idle link that waits for the peer's request; whether something happened.
cdef bint await_request(verbs_t *f, link_t *link, int64_t now) noexcept nogil
