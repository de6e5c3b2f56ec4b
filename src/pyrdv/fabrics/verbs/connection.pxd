# cython: language_level=3
"""The control path of a fabric: events, silence, closing (see .pyx)."""
from libc.stdint cimport int64_t, uint32_t

from pyrdv.fabrics.contract cimport fabric_t
from pyrdv.fabrics.verbs.state cimport verbs_t


# The operations of the contract.
cdef int verbs_connect(fabric_t *self, uint32_t peer) noexcept nogil
cdef void verbs_disconnect(fabric_t *self, uint32_t peer) noexcept nogil

# All are ``call``.

# Whether no connection to `peer` comes up: it is lost, or this end lacks something for it.
cdef bint connection_refused(const verbs_t *f, uint32_t peer) noexcept nogil
# Handle events of connections and of the device, time that passed, links that
# failed; how many things happened.
cdef int connection_turn(verbs_t *f) noexcept nogil
# Nanoseconds until connection_turn has something to do without an event; at most ping_every.
cdef int64_t connection_due(const verbs_t *f) noexcept nogil
# Wait until one of the descriptors of the control path is readable, at most `ms`.
cdef void connection_wait(verbs_t *f, int ms) noexcept nogil
# Take leave of the peers that were told to (verbs_disconnect): all that was posted
# arrives.  Bounded by the peer timeout.
cdef void connection_farewell(verbs_t *f) noexcept nogil
# End everything at once; peers that were not taken leave of see this end as lost.
cdef void connection_close(verbs_t *f) noexcept nogil
# In a forked child: let go of everything without telling anybody.
cdef void connection_abandon(verbs_t *f) noexcept nogil
