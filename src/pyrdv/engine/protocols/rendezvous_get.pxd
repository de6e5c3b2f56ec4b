# cython: language_level=3
"""Rendezvous by read: RTS, READ, DONE.  Step-safe, under the lock."""
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport engine_t, op_t, peer_t

# Announce send `op`; its buffer is registered for remote reading, or its protocol the pipeline.
# A fabric_status; FABRIC_OK: the op now waits for DONE.
cdef int rts_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil

cdef protocol_t *get_protocol() noexcept nogil
