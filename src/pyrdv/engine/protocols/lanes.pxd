# cython: language_level=3
"""Lanes: registered bounce buffers of the superpipeline.  Under the lock; step-safe unless marked
*call*."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport call_t, engine_t, op_t, peer_t
from pyrdv.fabrics.contract cimport fabric_t, region

cdef enum:
    LANE_BUFFERS = 3            # bounce buffers of one lane

cdef struct lane_t:             # three registered bounce buffers
    lane_t *next                # of its pool, or of the lanes in use
    op_t *op                    # whose data passes; NULL: it only waits for its WRITEs to end
    fabric_t *fabric
    char *memory                # LANE_BUFFERS buffers of lanes_t.bytes
    region local
    uint32_t index              # in lanes_t.all
    uint32_t peer               # rank; receiving: whose WRITEs the region is open to
    uint8_t receiving
    uint8_t registered
    uint8_t granted             # receiving: GRANT was posted
    uint8_t checked             # flags carry a CRC
    uint8_t streaming           # copies go past the caches
    uint32_t block              # bytes of a block and its flag; 0: no flags
    uint64_t room               # bytes of payload that one buffer of the receiver holds
    uint32_t base               # number of the first chunk; receiving: counts on from use to use
    uint32_t filled             # sending: chunks copied into buffers
    uint32_t posted             # sending: chunks whose WRITE was posted
    uint8_t busy                # sending: bit i, the WRITE from buffer i is not complete
    uint32_t taken              # chunks copied out; sending: as TAKEN told
    uint32_t told               # receiving: of those, told by TAKEN
    uint64_t offset             # bytes of the message copied in, or out
    uint64_t noticed            # receiving: bytes of the chunks that CHUNK told of
    uint64_t within             # receiving: bytes of the present chunk copied out
    uint64_t lengths[3]         # bytes of the chunk in each buffer; receiving: 0, no CHUNK yet
    uint64_t chunk              # sending: bytes of the next chunk
    uint32_t chunk_first        # sending: bytes of the first one
    uint32_t chunk_growth       # sending: per cent of a chunk that the next one has

cdef struct pool_t:             # lanes of one fabric and direction
    lane_t *free
    uint32_t count              # of all, those in use included
    uint32_t used

cdef struct lanes_t:            # what the superpipeline keeps of an engine
    uint32_t bytes              # of one bounce buffer
    uint32_t most               # lanes per fabric and direction, but that each peer may have one
    uint32_t block              # bytes of a block and its flag
    uint32_t chunk_first        # bytes of the first chunk; 0: by the figures
    uint32_t standing_most      # peers that may have standing buffers, per direction
    uint32_t standing_count[2]  # and how many have
    uint32_t standing_after     # large messages of a peer before it gets them
    lane_t *standing_free[2]    # lanes of such peers that are gone
    uint32_t count
    uint32_t limit              # entries of `all`
    lane_t **all                # by index
    lane_t *used
    pool_t pools[8]             # FABRICS_MAX x (sending, receiving)
    peer_t *waiting             # peers with operations that wait for a lane

cdef struct passing_t:          # and of an operation
    lane_t *lane                # what its data passes through, or NULL
    uint32_t base               # granted sends: fields of GRANT, until there is a lane
    uint32_t room
    uint32_t block
    uint8_t flags

cdef struct lane_peer_t:        # what the superpipeline keeps of a peer; [0] sending, [1] receiving
    uint32_t used[2]            # lanes in use with it
    op_t *head[2]               # operations that wait for one
    op_t *tail[2]
    peer_t *next                # lanes_t.waiting
    uint8_t waiting             # it is in that list

cdef inline lanes_t *lanes_of(const engine_t *e) noexcept nogil:
    return <lanes_t *> e.lanes

# Of an operation whose protocol is PIPELINE.
cdef inline passing_t *passing(const op_t *op) noexcept nogil:
    return <passing_t *> &op.own[0]

# Such an operation is complete.  Its lane may still have WRITEs under way, from memory of its own.
cdef inline void passing_ends(op_t *op) noexcept nogil:
    if passing(op).lane != NULL:
        passing(op).lane.op = NULL
        passing(op).lane = NULL

# What is under way in lanes is given up: no fabric moves it any more.
cdef inline void lanes_abandon(engine_t *e) noexcept nogil:
    lanes_of(e).used = NULL
    lanes_of(e).waiting = NULL
    e.pieces = 0

# An engine begins.  `size`: bytes of a bounce buffer, 0: by the devices; the rest as in lanes_t.
# False: no memory.
cdef bint lanes_open(engine_t *e, uint32_t size, uint32_t most, uint32_t block,
                     uint32_t chunk_first, uint32_t standing, uint32_t standing_after) noexcept
cdef void lanes_close(engine_t *e) noexcept
# call.  Have lanes for messages with `p` before other memory is registered, where that can fail.
cdef void lanes_keep(call_t *call, peer_t *p) noexcept nogil
# call.  Have a lane of that direction for messages with `p`; False: there can be none now.
cdef bint lane_reserve(call_t *call, peer_t *p, bint receiving) noexcept nogil
# call.  Have a free one that `p` may use as it is (B4), so a step can take it; False: as above.
cdef bint lane_spare(call_t *call, peer_t *p, bint receiving) noexcept nogil
# call.  A lane of that direction for standing buffers of `p`, which is in no pool; NULL: there can
# be none.
cdef lane_t *lane_stand(call_t *call, peer_t *p, bint receiving) noexcept nogil
# Such a lane is for another peer; nothing is under way in it, and its peer is gone.
cdef void lane_unstand(engine_t *e, lane_t *lane) noexcept nogil
# Would a message with `p` get a lane of that direction at once, as it is (B4)?
cdef bint lane_idle(engine_t *e, peer_t *p, bint receiving) noexcept nogil
# A lane for `op`, which leads the next transfer with `p`; a fabric_status.  AGAIN: later,
# FAILED: there is none and there will be none.
cdef int lane_take(engine_t *e, peer_t *p, op_t *op, bint receiving) noexcept nogil
# A lane for a send that was announced but not granted: only one that is free.  It may be taken
# away again.
cdef bint lane_early(engine_t *e, peer_t *p, op_t *op) noexcept nogil
# Nothing of its last operation is under way: back to the pool.
cdef void lane_free(engine_t *e, lane_t *lane) noexcept nogil
# Whether all that GRANT asked of send `op` was posted.
cdef bint lane_through(const op_t *op) noexcept nogil
# `op` waits for a lane; and what waits for one longest, taken off the queue (NULL: nothing).
cdef void lane_wait(engine_t *e, peer_t *p, op_t *op, bint receiving) noexcept nogil
cdef op_t *lane_next(peer_t *p, bint receiving) noexcept nogil
# Operations with `p` wait for lanes.
cdef void lanes_awaited(engine_t *e, peer_t *p) noexcept nogil
# The id of a WRITE from a buffer of a lane; and the lane that an id names, or NULL.
cdef uint64_t lane_id(const lane_t *lane, uint32_t buffer) noexcept nogil
cdef lane_t *lane_lookup(engine_t *e, uint64_t ident) noexcept nogil
# The i-th buffer of a lane.
cdef char *lane_buffer(engine_t *e, const lane_t *lane, uint64_t i) noexcept nogil
