# cython: language_level=3
"""Rendezvous by read: RTS, READ, DONE.  Step-safe, under the lock."""
from pyrdv.engine.state cimport engine_t, message_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t, rts_t
from pyrdv.fabrics.contract cimport completion

# Announce send `op`, whose buffer is registered for remote reading.
# A fabric_status; FABRIC_OK: the op now waits for DONE.
cdef int rts_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# An RTS arrived.  False: no descriptor for it now, leave the packet.
cdef bint rts_arrived(engine_t *e, peer_t *p, const rts_t *rts) noexcept nogil
# An RTS-ACK arrived.  False: it names no send that waits (R8).
cdef bint rts_ack_arrived(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
# Receive `op` takes unexpected message `m`, which is released.
cdef void get_deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil
# Post the next READ of a ready `op`; a fabric_status, AGAIN: keep it queued.
cdef int get_serve(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# A READ ended.
cdef void get_ended(engine_t *e, const completion *c) noexcept nogil
