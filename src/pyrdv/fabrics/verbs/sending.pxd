# cython: language_level=3
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport fabric_t, work_request
from pyrdv.fabrics.verbs.state cimport link_t, verbs_t


# The operation of the contract.
cdef int verbs_post(fabric_t *self, uint32_t peer, const work_request *chain,
                    int count) noexcept nogil
# step.  Note that `link` cannot go on (L3); the first reason stays.
cdef void link_fail(verbs_t *f, link_t *link, int failure, int status) noexcept nogil
# step.  Have poll look at `link`.
cdef void link_busy(verbs_t *f, link_t *link) noexcept nogil
# step.  Owe `bits` to the peer, and post what there is room for.
cdef void link_owe(verbs_t *f, link_t *link, int bits) noexcept nogil
# step.  Post what is owed, as far as there is room; the rest makes the link needy.
cdef void link_pay(verbs_t *f, link_t *link) noexcept nogil
# step.  Post a control packet now; FABRIC_OK | AGAIN | LOST.
cdef int control_send(verbs_t *f, link_t *link, int kind, const void *payload,
                      uint32_t length) noexcept nogil
# step.  Owe CREDIT once half of what the peer may have outstanding is not told.
cdef void link_credit(verbs_t *f, link_t *link) noexcept nogil
# call.  Forget `link` in every list of the fabric.
cdef void link_forget(verbs_t *f, link_t *link) noexcept nogil
