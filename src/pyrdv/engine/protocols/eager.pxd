# cython: language_level=3
"""Eager: the announcement carries the data.  Step-safe, under the lock."""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport engine_t, peer_t

# Post a message; `cookie` != 0 asks for a DONE.  A fabric_status; the data was
# copied when it is FABRIC_OK.
cdef int eager_post(engine_t *e, peer_t *p, uint32_t context, int32_t tag, const void *data,
                    uint64_t length, uint64_t cookie, int content) noexcept nogil

cdef protocol_t *eager_protocol() noexcept nogil
