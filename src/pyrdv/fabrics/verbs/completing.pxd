# cython: language_level=3
from pyrdv.fabrics.verbs.libibverbs cimport ibv_wc
from pyrdv.fabrics.verbs.state cimport link_t, verbs_t


# All of these are `step`.

# Take a completion of the send queue.
cdef void completed(verbs_t *f, link_t *link, const ibv_wc *wc) noexcept nogil
# Skip what poll has nothing to tell about.
cdef void pass_silent(link_t *link) noexcept nogil
# End everything that was posted and is not complete, with FABRIC_LOST.
cdef void transfers_lost(verbs_t *f, link_t *link) noexcept nogil
