# cython: language_level=3
"""Which protocol a message takes.  Under the lock; step-safe unless marked *call*."""
from libc.stdint cimport uint64_t

from pyrdv.engine.peer cimport eager_allowed, eager_limit
from pyrdv.engine.state cimport call_t, engine_t, offer_t, op_t, peer_t

cdef enum chosen:
    CHOSEN = 0                  # op.protocol and op.reason say so, and it has what that needs
    CHOSEN_LATER = 1            # only a call can do it
    CHOSEN_NEVER = 2            # its memory can neither be registered nor copied

# call.  A send is posted: choose for `op`, if that depends on nothing that may change until `op` is
# announced.  Returns `chosen`.
cdef int choose_send(call_t *call, peer_t *p, op_t *op) noexcept nogil
# call.  Before the turn of send `op` comes, in a step by itself perhaps: register its memory, or
# have a lane for it, if it is too long for eager.  Returns `chosen`.
cdef int choose_ahead(call_t *call, peer_t *p, op_t *op) noexcept nogil
# Send `op` is announced next: choose, by the credit and the offers of now.  Returns `chosen`.
cdef int choose_now(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# Can a send of `length` bytes go eager, before any operation is made?
cdef inline bint choose_eager(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    return length <= eager_limit(e, p.fabric) and eager_allowed(e, p, length)
# call.  Posted receive `op` has no message yet: would that be read, and neither placed nor copied
# through a lane, if it fills the room?  Then its buffer may be offered.  `held`: to read it, it
# need not be registered any more.
cdef bint choose_offer(call_t *call, peer_t *p, op_t *op, bint *held) noexcept nogil
# Receive `op` is matched with a rendezvous, whose sender says that its data cannot be read
# (`piped`), or can.
cdef void choose_announced(engine_t *e, op_t *op, bint piped) noexcept nogil
# The data of receive `op` can be read: is it, or does it come through a lane?  Returns `chosen`;
# NEVER: its memory cannot be registered, and PYRDV_PROTOCOL forbids to copy.
cdef int choose_receive(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# The offer that send `op`, whose turn it is and whose memory is registered, may use; or NULL.
cdef offer_t *offer_for(engine_t *e, peer_t *p, const op_t *op) noexcept nogil
# A message of `length` bytes came by RTS.  If it could have been placed, and that would have paid,
# this counts as a reason to give its sender standing buffers.
cdef void place_missed(engine_t *e, peer_t *p, uint64_t length) noexcept nogil
