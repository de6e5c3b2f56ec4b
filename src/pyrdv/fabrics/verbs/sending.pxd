# cython: language_level=3
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport fabric_t, work_request
from pyrdv.fabrics.verbs.state cimport qp_t, verbs_t


# The operation of the contract.
cdef int verbs_post(fabric_t *self, uint32_t peer, const work_request *chain,
                    int count) noexcept nogil
# step.  Post the held SENDs whose fence has opened (V4a).
cdef void held_post(verbs_t *f, qp_t *qp) noexcept nogil
