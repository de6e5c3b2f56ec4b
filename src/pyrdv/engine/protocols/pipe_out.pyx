# cython: language_level=3
"""Superpipeline, the sender's side: copies into the buffers, WRITE and CHUNK.

The exchange and the invariants Q1 to Q5 stand in ``superpipeline``.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.control cimport control_post, control_request, header_fill
from pyrdv.engine.copying cimport copy_checked, copy_plain
from pyrdv.engine.event cimport TRACE_BEGIN, TRACE_END
from pyrdv.engine.protocols.lanes cimport (
    LANE_BUFFERS, lane_buffer, lane_early, lane_free, lane_id, lane_lookup, lane_t, lane_take,
    lane_wait, lanes_of, passing)
from pyrdv.engine.op cimport op_complete, op_lookup
from pyrdv.engine.peer cimport ready_append
from pyrdv.engine.protocols.chunks cimport (
    FLAG, flag_word, layout, least, payload_of, space_of, unit_of)
from pyrdv.engine.protocols.contract cimport (
    SERVED, SERVED_AGAIN, VERDICT_ILLEGAL, VERDICT_TAKEN)
from pyrdv.engine.protocols.placed cimport place_lane
from pyrdv.engine.protocols.superpipeline cimport pipe_peer
from pyrdv.engine.state cimport (
    OP_INVALID, OP_NOT_REGISTERED, OP_PEER_LOST, OP_PIPING, OP_REFUSED, OP_SEND, OP_WAITING,
    PEER_UP, PROTOCOL_PIPELINE, REASON_PEER, engine_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_op
from pyrdv.engine.wire cimport (
    PACKET_CHECKED, PACKET_CHUNK, PACKET_REFUSED, WIRE_HEADER, grant_t, header_t)
from pyrdv.fabrics.contract cimport (
    FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK, WR_FENCE, WR_SIGNALED, WR_WRITE, completion, work_request)


cdef extern from "order.h" nogil:
    uint64_t observe64(const uint64_t *where)
    void note64(uint64_t *where, uint64_t value)


cdef uint64_t chunk_next(engine_t *e, lane_t *lane, uint64_t left) noexcept nogil:
    """Bytes of the chunk that follows, and how long the one after that may be."""
    cdef uint64_t unit = unit_of(lane.block)
    cdef uint64_t room = least(payload_of(lanes_of(e).bytes, lane.block), lane.room)
    cdef uint64_t now
    room = least(room, payload_of(lane.fabric.transfer_max, lane.block))
    if lane.chunk == 0:
        lane.chunk = lane.chunk_first
    now = least(lane.chunk, room)
    if now > unit:
        now -= now % unit
    elif room >= unit:
        now = unit
    lane.chunk = now * lane.chunk_growth // 100
    if lane.chunk < now + unit:
        lane.chunk = now + unit
    # A last one that is much smaller than the one before it is not worth its overhead.
    if left <= now + now // 4 and left <= room:
        return left
    return least(now, left)


cdef void fill(engine_t *e, lane_t *lane, uint64_t length) noexcept nogil:
    """Copy the next `length` bytes into the buffer of the next chunk."""
    cdef const char *origin = lane.op.buffer + lane.offset
    cdef char *buffer = lane_buffer(e, lane, lane.filled)
    cdef uint32_t number = lane.base + lane.filled
    cdef uint64_t unit = unit_of(lane.block)
    cdef uint32_t crc = 0
    lane.lengths[lane.filled % LANE_BUFFERS] = length
    lane.offset += length
    lane.filled += 1
    if not lane.block:
        copy_plain(buffer, origin, length, False)
        return
    while length >= unit:
        if lane.checked:
            crc = copy_checked(buffer, origin, unit, 0, False)
        else:
            copy_plain(buffer, origin, unit, False)
        note64(<uint64_t *> (buffer + unit), flag_word(number, crc))
        buffer += lane.block
        origin += unit
        length -= unit
    if length:
        copy_plain(buffer, origin, length, False)


cdef void pipe_announced(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef lane_t *lane
    if op.length == 0 or not lane_early(e, p, op):
        return
    # A guess: what GRANT tells may differ, and is likely what this side would say.
    lane = passing(op).lane
    lane.base = 0
    lane.block = layout(e, lane.fabric, &lane.checked)
    lane.room = payload_of(lanes_of(e).bytes, lane.block)
    fill(e, lane, chunk_next(e, lane, op.length))


cdef void number_blocks(engine_t *e, lane_t *lane) noexcept nogil:
    """Write the right chunk number into the flags of a first chunk that was copied early."""
    cdef char *flag = lane_buffer(e, lane, 0) + lane.block - FLAG
    cdef uint64_t blocks = lane.lengths[0] // unit_of(lane.block)
    cdef uint64_t word
    while blocks:
        word = observe64(<const uint64_t *> flag)
        note64(<uint64_t *> flag, flag_word(lane.base, <uint32_t> (word >> 32)))
        flag += lane.block
        blocks -= 1


cdef void send_begin(engine_t *e, op_t *op) noexcept nogil:
    """A granted send has its lane."""
    cdef lane_t *lane = passing(op).lane
    cdef uint8_t checked = passing(op).flags & PACKET_CHECKED != 0
    cdef uint64_t room = payload_of(passing(op).room, passing(op).block)
    op.state = OP_PIPING
    lane.base = passing(op).base
    if lane.filled and (lane.block != passing(op).block or lane.checked != checked
                        or lane.lengths[0] > room or lane.lengths[0] > op.total):
        lane.filled = 0
        lane.offset = lane.chunk = 0
    lane.block = passing(op).block
    lane.checked = checked
    lane.room = room
    if lane.filled and lane.block:
        number_blocks(e, lane)


cdef bint grant_legal(engine_t *e, peer_t *p, const grant_t *g) noexcept nogil:
    """What GRANT says of its buffers (docs/wire.md, section 7)."""
    cdef const header_t *h = &g.header
    cdef uint32_t block = <uint32_t> h.tag
    if h.context == 0 or h.length == 0:
        return False
    return block == 0 or (block >= 2 * FLAG and block % FLAG == 0 and block <= h.context
                          and block <= lanes_of(e).bytes and block <= p.fabric.transfer_max)


cdef int grant_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef const grant_t *g = <const grant_t *> h
    cdef op_t *op = op_lookup(e, h.cookie)
    cdef int status = FABRIC_OK
    if op == NULL or op.kind != OP_SEND or op.state != OP_WAITING or op.peer != p.rank \
            or p.finished or not grant_legal(e, p, g) or h.length > op.total:
        return VERDICT_ILLEGAL
    if e.policy.answered != NULL:
        e.policy.answered(p, op)
    if op.protocol != PROTOCOL_PIPELINE:
        op.protocol = PROTOCOL_PIPELINE
        op.reason = REASON_PEER
    op.total = h.length
    op.cookie = g.receive
    op.remote = g.address
    op.remote_key = g.key
    passing(op).base = h.sequence
    passing(op).room = h.context
    passing(op).block = <uint32_t> h.tag
    passing(op).flags = h.flags
    e.counters.sends_piped += 1
    if passing(op).lane == NULL:
        status = FABRIC_AGAIN
        if pipe_peer(p).head[0] == NULL:
            status = lane_take(e, p, op, False)
    grant_follow(e, p, op, status)
    return VERDICT_TAKEN


cdef void grant_follow(engine_t *e, peer_t *p, op_t *op, int status) noexcept nogil:
    """A granted send got a lane (OK), must wait for one (AGAIN), or gets none."""
    if status == FABRIC_OK:
        send_begin(e, op)
    elif status == FABRIC_AGAIN:
        lane_wait(e, p, op, False)
    else:
        op.flags |= OP_REFUSED
        op.error = OP_NOT_REGISTERED
        ready_append(e, p, op)


cdef int taken_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef op_t *op = op_lookup(e, h.cookie)
    cdef uint32_t taken
    if op == NULL or op.kind != OP_SEND or op.peer != p.rank or op.state != OP_PIPING:
        return VERDICT_ILLEGAL
    taken = h.sequence - passing(op).lane.base
    if taken <= passing(op).lane.taken or taken > passing(op).lane.posted:
        return VERDICT_ILLEGAL
    passing(op).lane.taken = taken
    return VERDICT_TAKEN


cdef int chunk_post(engine_t *e, peer_t *p, lane_t *lane) noexcept nogil:
    cdef header_t h
    cdef work_request wr[2]
    cdef int status
    cdef op_t *op = lane.op
    cdef uint32_t number = lane.base + lane.posted
    cdef uint64_t length = lane.lengths[lane.posted % LANE_BUFFERS]
    memset(&wr[0], 0, sizeof(work_request))
    wr[0].opcode = WR_WRITE
    wr[0].flags = WR_SIGNALED
    wr[0].local = lane_buffer(e, lane, lane.posted)
    wr[0].local_key = lane.local.key
    wr[0].remote = op.remote + <uint64_t> (number % LANE_BUFFERS) * passing(op).room
    wr[0].remote_key = op.remote_key
    wr[0].length = space_of(length, lane.block)
    wr[0].id = lane_id(lane, lane.posted % LANE_BUFFERS)
    header_fill(p, &h, PACKET_CHUNK, 0, 0, length, op.cookie)
    h.sequence = number
    control_request(&wr[1], &h, WIRE_HEADER)
    wr[1].flags = WR_FENCE
    status = p.fabric.ops.post(p.fabric, p.rank, wr, 2)
    if status == FABRIC_OK:
        lane.busy |= <uint8_t> (1 << lane.posted % LANE_BUFFERS)
        lane.posted += 1
        e.moving += 1
        e.counters.writes += 1
        e.counters.chunks_sent += 1
        trace_op(e, TRACE_BEGIN, op, length, 0, 0)
    return status


cdef int pipe_refuse(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef header_t h
    cdef int status = FABRIC_LOST
    if p.state == PEER_UP:
        header_fill(p, &h, PACKET_CHUNK, 0, 0, 0, op.cookie)
        h.sequence = passing(op).base
        h.flags = PACKET_REFUSED
        status = control_post(p, &h, WIRE_HEADER)
        if status == FABRIC_OK:
            op_complete(e, op, op.error)
    if status == FABRIC_AGAIN:
        return SERVED_AGAIN
    if status != FABRIC_OK:
        op_complete(e, op, OP_PEER_LOST)
    return SERVED


cdef int send_turn(engine_t *e, peer_t *p, lane_t *lane, uint64_t *budget) noexcept nogil:
    cdef op_t *op = lane.op
    cdef uint64_t length
    cdef int happened = 0
    cdef int status
    if op.flags & OP_REFUSED:
        # Only when no WRITE is under way (F4).
        if lane.busy:
            return 0
        passing(op).lane = NULL
        lane_free(e, lane)
        ready_append(e, p, op)
        return 1
    while True:
        if lane.posted < lane.filled and lane.posted - lane.taken < LANE_BUFFERS:
            # The network first, then the copy that it hides.
            status = chunk_post(e, p, lane)
            if status == FABRIC_AGAIN:
                break
            if status != FABRIC_OK:
                op_complete(e, op, OP_PEER_LOST)
                break
        elif lane.offset < op.total and lane.filled - lane.posted < LANE_BUFFERS \
                and not lane.busy >> lane.filled % LANE_BUFFERS & 1:
            if budget[0] == 0:
                e.pieces_due = 1
                break
            length = chunk_next(e, lane, op.total - lane.offset)
            fill(e, lane, length)
            budget[0] -= least(length, budget[0])
        else:
            break
        happened += 1
    return happened


cdef bint pipe_written(engine_t *e, const completion *c) noexcept nogil:
    cdef lane_t *lane = lane_lookup(e, c.id)
    cdef uint8_t bit = <uint8_t> (1 << (c.id >> 32))
    cdef op_t *op
    if lane == NULL or not lane.busy & bit:
        return True
    e.moving -= 1
    lane.busy &= <uint8_t> ~bit
    op = lane.op
    if op != NULL:
        trace_op(e, TRACE_END, op, lane.lengths[c.id >> 32], 0,
                 0 if c.status == FABRIC_OK else OP_INVALID)
    if c.status == FABRIC_OK:
        return True
    if op == NULL:
        # PLACED went with it, and so did a place in the order of announcements (Z3).
        return c.status == FABRIC_LOST or not place_lane(&e.peers[lane.peer], lane)
    if c.status == FABRIC_LOST:
        op_complete(e, op, OP_PEER_LOST)
    else:
        # The CHUNK behind it went with it; the receive must not wait for ever.
        op.flags |= OP_REFUSED
        op.error = OP_INVALID
    return True
