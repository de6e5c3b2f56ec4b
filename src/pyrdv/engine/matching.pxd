# cython: language_level=3
"""Matching of announcements with receives: two indexes of envelopes.

All operations run under the engine's lock and, but for the ``reserve`` ones
(call context: they may allocate), are step-safe.
"""
from libc.stdint cimport int32_t, uint32_t

from pyrdv.engine.state cimport call_t, engine_t, index_t, message_t, op_t

cdef int index_init(index_t *index) noexcept nogil
cdef void index_free(index_t *index) noexcept nogil

# call.  Keep the posted (unexpected) index's chains short for one more entry.
# Running out of memory only leaves the chains longer.
cdef void posted_reserve(call_t *call) noexcept nogil
cdef void unexpected_reserve(call_t *call) noexcept nogil

# Put receive `op` behind all others of its envelope; take it out again.
cdef void posted_add(engine_t *e, op_t *op) noexcept nogil
cdef void posted_remove(engine_t *e, op_t *op) noexcept nogil
# Does an earlier receive of another key stand before posted `op` that could take its messages?
cdef bint posted_behind_wildcard(engine_t *e, const op_t *op) noexcept nogil
# How many earlier receives of its key stand before posted `op`; -1: more than `limit`, or
# a receive that could take its messages and has another key, or a matched probe.
cdef int posted_ahead(engine_t *e, const op_t *op, int limit) noexcept nogil
# The oldest posted receive that takes this envelope, or NULL; it stays posted.
cdef op_t *posted_find(engine_t *e, uint32_t context, uint32_t peer, int32_t tag) noexcept nogil

# The same for unexpected messages; `peer` and `tag` of find may be wildcards.
cdef void unexpected_add(engine_t *e, message_t *message) noexcept nogil
cdef void unexpected_remove(engine_t *e, message_t *message) noexcept nogil
# A message nobody receives yet: it goes to `op`, a posted matched probe, or (NULL) to the queue.
cdef void message_keep(engine_t *e, op_t *op, message_t *message) noexcept nogil
cdef message_t *unexpected_find(engine_t *e, uint32_t context, uint32_t peer,
                                int32_t tag) noexcept nogil
