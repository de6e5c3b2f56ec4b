# cython: language_level=3
"""Adaptation of the ``indexed`` pairing: what offers cost against what missing ones cost.  Under
the lock; step-safe unless marked *call*."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport FABRICS_MAX, call_t, engine_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t

cdef struct regret_t:           # what ``indexed`` keeps of an engine, beside its envelopes
    uint8_t never               # offers are never stopped
    uint8_t few                 # unused ones in a row stop an envelope, if they cost enough
    uint8_t trial_every         # receives, while it is stopped
    uint64_t pace[FABRICS_MAX]  # time that 64 KiB took to move, smoothed; 0: nobody waited yet


# The receiver's side.  Does posted receive `op` keep its RTR back?
cdef bint regret_withholds(engine_t *e, const op_t *op) noexcept nogil
# call.  It sent one, which took `spent` of `trace_now`.
cdef void regret_offered(call_t *call, const op_t *op, uint64_t spent) noexcept nogil
# Announcement `h` is taken by posted receive `op`.
cdef void regret_met(engine_t *e, peer_t *p, op_t *op, const header_t *h) noexcept nogil
# Its message was read.
cdef void regret_read(engine_t *e, peer_t *p, const op_t *op) noexcept nogil

# The sender's side.  call.  May an RTR be here for a send that is about to begin?
cdef bint regret_hopes(call_t *call, const peer_t *p, uint32_t context, int32_t tag) noexcept nogil
# One arrived.
cdef void regret_heard(engine_t *e, const peer_t *p, const header_t *h) noexcept nogil

cdef void regret_hash(const engine_t *e, uint64_t *h) noexcept nogil
