# cython: language_level=3
"""Whether speculation pays, per envelope: the ``classic`` rule.  Under the lock; step-safe."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport engine_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t

cdef enum:
    HABITS = 256                # envelopes whose use of RTRs is remembered

cdef struct habit_t:            # how RTRs of one envelope fare, on both sides
    uint32_t context
    uint32_t peer
    int32_t tag
    uint32_t judged             # sender: RTRs used or dropped in this window
    uint32_t used               # sender: of them used; while stopping: in a row
    uint8_t known               # 0: an empty record
    uint8_t stopping            # sender: it said STOP last
    uint8_t advice              # sender: PACKET_STOP or PACKET_RESUME, to be told
    uint8_t stopped             # receiver: it heard STOP last
    uint8_t skipped             # receiver: RTRs kept back since the last trial

cdef struct habits_t:           # what ``classic`` keeps of an engine
    uint32_t adapt              # per cent of RTRs used below which they are stopped; 0: never
    uint32_t window             # RTRs after which an envelope is judged
    uint32_t resume_after       # used trials in a row after which it is resumed
    uint8_t trial_every         # receives, while it is stopped
    uint32_t advices            # habits with something to tell
    habit_t of[HABITS]


# The sender's side.  An RTR of this envelope was used, or dropped.
cdef void rtr_judged(engine_t *e, peer_t *p, uint32_t context, int32_t tag,
                     bint used) noexcept nogil
# Add to its next announcement, `h`, what that has to tell: PACKET_STOP, PACKET_RESUME or nothing.
cdef void advise(engine_t *e, peer_t *p, header_t *h) noexcept nogil
# An announcement was posted.
cdef void advice_told(engine_t *e, peer_t *p, const header_t *h) noexcept nogil

# The receiver's side.  An announcement brought an advice.
cdef void advice_heard(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
# Does posted receive `op` keep its RTR back because its envelope was stopped?
cdef bint withheld(engine_t *e, const op_t *op) noexcept nogil

# Mix it all into a digest.
cdef void habits_hash(const engine_t *e, uint64_t *h) noexcept nogil
