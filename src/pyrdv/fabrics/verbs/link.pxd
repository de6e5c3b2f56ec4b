# cython: language_level=3
"""Links: their memory, queue pair and place in the fabric (see .pyx)."""
from libc.stdint cimport int64_t, uint32_t

from pyrdv.fabrics.verbs.state cimport link_t, verbs_t


# All are ``call``.
cdef int64_t now_ns() noexcept nogil
# A link in state LINK_NEW without memory; NULL with errno in f.base.error.
cdef link_t *link_new(verbs_t *f, uint32_t peer) noexcept nogil
# Give a link that has an id memory, a queue pair and posted receives.  0, or
# equipment << 16 | errno and f.base.error; link_strip undoes what was done.
cdef int link_equip(verbs_t *f, link_t *link) noexcept nogil
# The same as far as it goes without an id, for a link that has none: whether link_equip would
# succeed now.
cdef int link_rehearse(verbs_t *f, link_t *link) noexcept nogil
# What a connection needs before anybody is asked for it; as link_equip.
cdef int link_provide(verbs_t *f, link_t *link) noexcept nogil
# Take queue pair and id away; memory stays, for another attempt.
cdef void link_strip(verbs_t *f, link_t *link) noexcept nogil
# The link is ready for packets.
cdef void link_up(verbs_t *f, link_t *link) noexcept nogil
# The end of a link that was up (F4, F7, L3): what has arrived is kept for poll,
# what is under way ends as lost.
cdef void link_down(verbs_t *f, link_t *link) noexcept nogil
# Give what belongs to the device back; memory stays.
cdef void link_bury(verbs_t *f, link_t *link) noexcept nogil
# Forget a link whose end was returned, or that was never up.
cdef void link_free(verbs_t *f, link_t *link) noexcept nogil
# Take all completions that are there now into the links.
cdef void links_settle(verbs_t *f) noexcept nogil
