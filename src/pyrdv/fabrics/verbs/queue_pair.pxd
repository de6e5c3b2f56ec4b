# cython: language_level=3
"""Queue pairs: their number, completion queue, making and end (see .pyx)."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint32_t

from pyrdv.fabrics.verbs.state cimport qp_t, verbs_t


# All are ``call``, unless they say *step*.  A problem is 0, or equipment << 16 | errno and
# f.base.error.

cdef inline int lacking(verbs_t *f, int what, int error) noexcept nogil:
    # Some libraries return no errno; a code of 0 would mean success.
    f.base.error = error if error else ENOMEM
    return what << 16 | (f.base.error & 0xFFFF)

# Give `qp` a tag of this index that no other had, so that completions of the former are nobody's.
cdef void qp_tag(verbs_t *f, qp_t *qp, uint32_t index) noexcept nogil
# A completion queue for `qp`; a problem.
cdef int qp_provide(verbs_t *f, qp_t *qp) noexcept nogil
# step.  Take the events that the completion channel tells.
cdef void events_take(verbs_t *f) noexcept nogil
# Acknowledge those that were taken, without which no completion queue can be destroyed.
cdef void events_acknowledge(verbs_t *f) noexcept nogil
# Make the ibv_qp of `qp`, which has an id and a completion queue; a problem.
cdef int qp_make(verbs_t *f, qp_t *qp) noexcept nogil
# Whether that would succeed, without an id; a problem.
cdef int qp_rehearse(verbs_t *f, qp_t *qp) noexcept nogil
# Disconnect, and have the device flush what was posted; whether there is an ibv_qp.
cdef bint qp_stop(verbs_t *f, qp_t *qp) noexcept nogil
# Whether no transfer of the engine is in the hands of the device any more.
cdef bint transfers_flushed(const qp_t *qp) noexcept nogil
# Take the ibv_qp away, if there is one; the id stays.
cdef void qp_destroy(verbs_t *f, qp_t *qp) noexcept nogil
# Take both away.
cdef void qp_bury(verbs_t *f, qp_t *qp) noexcept nogil
