# cython: language_level=3
from pyrdv.fabrics.verbs.libibverbs cimport ibv_wc
from pyrdv.fabrics.verbs.state cimport qp_t, verbs_t


# All of these are `step`.

# Take a completion of the send queue.
cdef void completed(verbs_t *f, qp_t *qp, const ibv_wc *wc) noexcept nogil
# Skip what poll has nothing to tell about.
cdef void pass_silent(qp_t *qp) noexcept nogil
# End everything that was posted and is not complete, with FABRIC_LOST.
cdef void transfers_lost(verbs_t *f, qp_t *qp) noexcept nogil
