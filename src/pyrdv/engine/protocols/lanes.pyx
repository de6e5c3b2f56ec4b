# cython: language_level=3
"""Lanes: registered bounce buffers of the superpipeline.

A lane is three buffers that the chunks of one message use in turn.  A message needs one on each
side: a receiver takes its own before it asks for the data, a sender takes its own after that.

Invariants:

B1  A lane is never given back to the system; a step takes it from a list of free ones.  New ones
    are made by calls, up to `most` per fabric and direction.
B2  No deadlock.  Who holds a receiving lane waits for a sending lane, never the other way round,
    and who holds both waits for the peer alone.  A lane given to a send that was not asked for yet
    (`lane_early`) is taken away from it when another one needs it.
B3  No pair of ranks waits for another pair: a peer with which no lane is in use may have one
    beyond `most`, for the others' may be held by ranks that compute.  So may peers with
    standing buffers, `standing_most` per direction.
B4  (R8) What a peer may write into, it could write into when its own message is through.  So
    a receiving lane serves another peer only after it was registered anew.  A sending lane is not
    open to anybody.
B5  Chunks of a receiving lane are numbered on from message to message, so that what an earlier
    one left in the buffers is not taken for the present one.
"""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.calling cimport call_running, peer_call
from pyrdv.engine.choice.costs cimport BUFFER, fabric_index
from pyrdv.engine.pools cimport memory_new
from pyrdv.engine.protocols.contract cimport OWN_ID
from pyrdv.engine.protocols.superpipeline cimport pipe_peer
from pyrdv.engine.registering cimport region_register
from pyrdv.engine.state cimport (
    CHOICE_AUTO, FABRICS_MAX, OP_LANELESS, OP_WAITING, call_t, engine_t, figures_t, op_t, peer_t)
from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_WRITE, CAP_LOCAL, CAP_SOFT, FABRIC_AGAIN, FABRIC_FAILED, FABRIC_OK)


cdef enum:
    PAGE = 4096
    SOFT = 512 << 10            # bytes of a bounce buffer with soft devices, if MANY of them fit
    MANY = 64                   # in the registration budget
    SHARE = 4                   # standing buffers: one part in so many of what may stay registered
    NUMBERS_END = 1 << 30       # from here on the buffers are wiped and counted from 1 again (B5)


cdef uint32_t usual_bytes(const engine_t *e) noexcept nogil:
    """The size of a bounce buffer.  With soft devices a packet costs more than a copy that nothing
    hides, so buffers are larger there, as far as the registration budget allows."""
    cdef int i
    cdef uint32_t soft = 0
    cdef uint32_t bytes = BUFFER
    for i in range(e.fabric_count):
        soft |= e.fabrics[i].capabilities & CAP_SOFT
    while soft and bytes < SOFT and 2 * bytes <= e.cache.bytes_max // MANY:
        bytes *= 2
    return bytes


cdef bint lanes_open(engine_t *e, uint32_t size, uint32_t most, uint32_t block,
                     uint32_t chunk_first, uint32_t standing, uint32_t standing_after) noexcept:
    cdef lanes_t *own = <lanes_t *> PyMem_Calloc(1, sizeof(lanes_t))
    if own == NULL:
        return False
    e.lanes = own
    own.bytes = size if size else usual_bytes(e)
    own.most, own.block, own.chunk_first = most, block, chunk_first
    own.standing_most, own.standing_after = standing, standing_after
    return True


cdef void lanes_close(engine_t *e) noexcept:
    PyMem_Free(e.lanes)
    e.lanes = NULL


cdef pool_t *pool_of(engine_t *e, const peer_t *p, bint receiving) noexcept nogil:
    cdef int i
    for i in range(FABRICS_MAX - 1):
        if e.fabrics[i] == p.fabric:
            return &lanes_of(e).pools[2 * i + receiving]
    return &lanes_of(e).pools[2 * (FABRICS_MAX - 1) + receiving]


cdef char *lane_buffer(engine_t *e, const lane_t *lane, uint64_t i) noexcept nogil:
    return lane.memory + i % LANE_BUFFERS * lanes_of(e).bytes


cdef uint64_t lane_id(const lane_t *lane, uint32_t buffer) noexcept nogil:
    return <uint64_t> buffer << 32 | <uint64_t> OWN_ID | lane.index


cdef lane_t *lane_lookup(engine_t *e, uint64_t ident) noexcept nogil:
    cdef uint32_t index = <uint32_t> ident & (<uint32_t> OWN_ID - 1)
    return lanes_of(e).all[index] if index < lanes_of(e).count else NULL


cdef bint lane_register(call_t *call, lane_t *lane, peer_t *p) noexcept nogil:
    """call.  Register the memory of a lane, for WRITEs of `p` if it receives (B4)."""
    cdef engine_t *e = &call.engine
    if lane.registered:
        p.fabric.ops.deregister(p.fabric, &lane.local)
        lane.registered = 0
    lane.local.address = lane.memory
    lane.local.length = <uint64_t> LANE_BUFFERS * lanes_of(e).bytes
    if not region_register(
            call, p.fabric, ACCESS_LOCAL | ACCESS_REMOTE_WRITE if lane.receiving else ACCESS_LOCAL,
            &lane.local):
        return False
    lane.registered = 1
    lane.peer = p.rank
    return True


cdef lane_t *lane_make(call_t *call, peer_t *p, bint receiving) noexcept nogil:
    """call.  A further lane, in no list and not registered, or NULL: no memory."""
    cdef engine_t *e = &call.engine
    cdef lanes_t *own = lanes_of(e)
    cdef uint64_t size = <uint64_t> LANE_BUFFERS * own.bytes
    cdef const figures_t *figures
    cdef lane_t *lane
    cdef char *memory
    if own.all == NULL:
        own.limit = 2 * (e.size + FABRICS_MAX * own.most + own.standing_most)
        own.all = <lane_t **> memory_new(call, own.limit * sizeof(lane_t *))
    if own.all == NULL or own.count == own.limit:
        return NULL
    lane = <lane_t *> memory_new(call, sizeof(lane_t))
    memory = <char *> memory_new(call, size + PAGE) if lane != NULL else NULL
    if memory == NULL:
        return NULL
    memset(lane, 0, sizeof(lane_t))
    lane.memory = memory + (PAGE - <uint64_t> memory % PAGE) % PAGE
    lane.fabric = p.fabric
    lane.receiving = receiving
    figures = &e.figures[fabric_index(e, p)]
    lane.chunk_first = own.chunk_first if own.chunk_first else figures.chunk_first
    lane.chunk_growth = figures.chunk_growth
    lane.base = 1
    lane.index = own.count
    own.all[own.count] = lane
    own.count += 1
    return lane


cdef lane_t *lane_new(call_t *call, peer_t *p, pool_t *pool, bint receiving) noexcept nogil:
    """call.  A further lane of a pool, or NULL: no memory, or it could not be registered."""
    cdef lane_t *lane = lane_make(call, p, receiving)
    if lane == NULL:
        return NULL
    pool.count += 1
    lane.next = pool.free
    pool.free = lane
    return lane if lane_register(call, lane, p) else NULL


cdef lane_t *lane_stand(call_t *call, peer_t *p, bint receiving) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef lanes_t *own = lanes_of(e)
    cdef lane_t *lane = own.standing_free[receiving]
    if lane != NULL and lane.fabric == p.fabric and lane_register(call, lane, p):
        own.standing_free[receiving] = lane.next
        own.standing_count[receiving] += 1
        return lane
    if own.standing_count[receiving] >= own.standing_most \
            or (own.standing_count[0] + own.standing_count[1] + 1) * LANE_BUFFERS \
            * <uint64_t> own.bytes > e.cache.bytes_max // SHARE:
        return NULL
    lane = lane_make(call, p, receiving)
    # Where it cannot be registered, it is not tried for other peers again and again.
    own.standing_count[receiving] += 1
    return lane if lane != NULL and lane_register(call, lane, p) else NULL


cdef void lane_unstand(engine_t *e, lane_t *lane) noexcept nogil:
    cdef lanes_t *own = lanes_of(e)
    lane.next = own.standing_free[lane.receiving]
    own.standing_free[lane.receiving] = lane
    own.standing_count[lane.receiving] -= 1


cdef bint fits(const lane_t *lane, const peer_t *p) noexcept nogil:
    """Can `p` have it as it is (B4)?"""
    return lane.registered and (not lane.receiving or lane.peer == p.rank)


cdef lane_t *pool_pick(pool_t *pool, const peer_t *p) noexcept nogil:
    cdef lane_t **link = &pool.free
    cdef lane_t *lane
    while link[0] != NULL and not fits(link[0], p):
        link = &link[0].next
    lane = link[0]
    if lane != NULL:
        link[0] = lane.next
    return lane


cdef bint pool_extend(call_t *call, peer_t *p, pool_t *pool, bint receiving) noexcept nogil:
    """call.  Have a free lane that `p` can use: a new one, or one of another peer."""
    cdef engine_t *e = &call.engine
    cdef lane_t *lane = pool.free
    while lane != NULL and lane.registered:
        lane = lane.next
    if lane != NULL:
        if lane_register(call, lane, p):
            return True
    elif pool.count < lanes_of(e).most or pool.free == NULL and pipe_peer(p).used[receiving] == 0:
        if lane_new(call, p, pool, receiving) != NULL:
            return True
    # What another peer's gives back may be enough for this one.
    lane = pool.free
    while lane != NULL:
        if lane_register(call, lane, p):
            e.counters.lanes_bound += 1
            return True
        lane = lane.next
    return False


cdef void lane_start(engine_t *e, lane_t *lane, peer_t *p, op_t *op) noexcept nogil:
    lane.op = op
    passing(op).lane = lane
    lane.peer = p.rank
    lane.granted = lane.checked = lane.streaming = 0
    lane.filled = lane.posted = lane.taken = lane.told = 0
    lane.offset = lane.noticed = lane.within = lane.chunk = 0
    lane.lengths[0] = lane.lengths[1] = lane.lengths[2] = 0
    if lane.receiving and lane.base > NUMBERS_END:
        memset(lane.memory, 0, <uint64_t> LANE_BUFFERS * lanes_of(e).bytes)
        lane.base = 1


cdef void lane_use(engine_t *e, lane_t *lane, peer_t *p, op_t *op) noexcept nogil:
    pool_of(e, p, lane.receiving).used += 1
    pipe_peer(p).used[lane.receiving] += 1
    lane_start(e, lane, p, op)
    lane.next = lanes_of(e).used
    lanes_of(e).used = lane
    e.pieces = 1


cdef void lane_free(engine_t *e, lane_t *lane) noexcept nogil:
    cdef peer_t *p = &e.peers[lane.peer]
    cdef pool_t *pool = pool_of(e, p, lane.receiving)
    cdef lane_t **link = &lanes_of(e).used
    while link[0] != lane:
        link = &link[0].next
    link[0] = lane.next
    lane.next = pool.free
    pool.free = lane
    if lane.receiving:
        # Of a message that ended early, further chunks may be on their way (B5).
        lane.base += lane.taken + LANE_BUFFERS
    pool.used -= 1
    pipe_peer(p).used[lane.receiving] -= 1


cdef bint lane_steal(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    """Take the lane of a send that was not asked for yet (B2)."""
    cdef lane_t *lane = lanes_of(e).used
    while lane != NULL:
        if not lane.receiving and lane.fabric == p.fabric and lane.op != NULL \
                and lane.op.state == OP_WAITING:
            passing(lane.op).lane = NULL
            pipe_peer(&e.peers[lane.peer]).used[0] -= 1
            pipe_peer(p).used[0] += 1
            lane_start(e, lane, p, op)
            return True
        lane = lane.next
    return False


cdef int lane_take(engine_t *e, peer_t *p, op_t *op, bint receiving) noexcept nogil:
    cdef call_t *call = call_running(e)
    cdef pool_t *pool = pool_of(e, p, receiving)
    cdef lane_t *lane = pool_pick(pool, p)
    if lane == NULL and not receiving and lane_steal(e, p, op):
        return FABRIC_OK
    if lane == NULL:
        if call == NULL:
            peer_call(e, p)
            return FABRIC_AGAIN
        if pool_extend(call, p, pool, receiving):
            lane = pool_pick(pool, p)
    if lane == NULL:
        return FABRIC_AGAIN if pool.used else FABRIC_FAILED
    lane_use(e, lane, p, op)
    return FABRIC_OK


cdef bint lane_early(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef lane_t *lane = pool_pick(pool_of(e, p, False), p)
    if lane == NULL:
        return False
    lane_use(e, lane, p, op)
    return True


cdef void lanes_keep(call_t *call, peer_t *p) noexcept nogil:
    cdef engine_t *e = &call.engine
    if e.protocol == CHOICE_AUTO and not p.fabric.capabilities & CAP_LOCAL:
        lane_reserve(call, p, False)
        lane_reserve(call, p, True)


cdef bint lane_reserve(call_t *call, peer_t *p, bint receiving) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef pool_t *pool = pool_of(e, p, receiving)
    cdef lane_t *lane = pool.free
    if pool.count == 0:
        return lane_new(call, p, pool, receiving) != NULL
    while lane != NULL:
        if lane.registered:
            return True
        lane = lane.next
    return pool.used or lane_register(call, pool.free, p)


cdef const lane_t *fitting(const pool_t *pool, const peer_t *p) noexcept nogil:
    """A free one that `p` can have as it is, or NULL."""
    cdef const lane_t *lane = pool.free
    while lane != NULL and not fits(lane, p):
        lane = lane.next
    return lane


cdef bint lane_spare(call_t *call, peer_t *p, bint receiving) noexcept nogil:
    cdef pool_t *pool = pool_of(&call.engine, p, receiving)
    cdef const lane_t *lane = fitting(pool, p)
    if lane == NULL and pipe_peer(p).used[receiving] == 0:
        # One of its own, beyond the others' (B3): theirs are spared for them.
        lane = lane_new(call, p, pool, receiving)
    return lane != NULL or pool_extend(call, p, pool, receiving)


cdef bint lane_idle(engine_t *e, peer_t *p, bint receiving) noexcept nogil:
    cdef const pool_t *pool = pool_of(e, p, receiving)
    return fitting(pool, p) != NULL or pool.count < lanes_of(e).most


cdef bint lane_through(const op_t *op) noexcept nogil:
    return (passing(op).lane != NULL and passing(op).lane.offset == op.total
            and passing(op).lane.posted == passing(op).lane.filled)


# Waiting for one ---------------------------------------------------------------

cdef void lane_wait(engine_t *e, peer_t *p, op_t *op, bint receiving) noexcept nogil:
    cdef lane_peer_t *own = pipe_peer(p)
    op.state = OP_LANELESS
    op.next = NULL
    if own.tail[receiving] == NULL:
        own.head[receiving] = op
    else:
        own.tail[receiving].next = op
    own.tail[receiving] = op
    e.counters.lanes_waited += 1
    lanes_awaited(e, p)


cdef void lanes_awaited(engine_t *e, peer_t *p) noexcept nogil:
    cdef lane_peer_t *own = pipe_peer(p)
    if not own.waiting:
        own.waiting = 1
        own.next = lanes_of(e).waiting
        lanes_of(e).waiting = p
        e.pieces = 1


cdef op_t *lane_next(peer_t *p, bint receiving) noexcept nogil:
    cdef lane_peer_t *own = pipe_peer(p)
    cdef op_t *op = own.head[receiving]
    if op != NULL:
        own.head[receiving] = op.next
        if op.next == NULL:
            own.tail[receiving] = NULL
        op.next = NULL
    return op
