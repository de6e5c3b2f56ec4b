# cython: language_level=3
"""Superpipeline, the receiver's side: GRANT, copies out of the buffers, TAKEN, DONE.

The exchange and the invariants Q1 to Q5 stand in ``superpipeline``.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.control cimport control_post, header_fill
from pyrdv.engine.copying cimport copy_checked, copy_past_caches, copy_plain
from pyrdv.engine.protocols.lanes cimport (
    LANE_BUFFERS, lane_buffer, lane_free, lane_t, lane_take, lane_wait, lanes_of, passing)
from pyrdv.engine.op cimport op_complete, op_cookie, op_lookup, op_wanted
from pyrdv.engine.protocols.chunks cimport layout, least, payload_of, unit_of
from pyrdv.engine.protocols.contract cimport VERDICT_ILLEGAL, VERDICT_TAKEN
from pyrdv.engine.protocols.done cimport done_start
from pyrdv.engine.protocols.superpipeline cimport pipe_peer
from pyrdv.engine.state cimport (
    OP_INVALID, OP_NOT_REGISTERED, OP_PEER_LOST, OP_PIPING, OP_RECV, OP_REFUSED, PAIR_ACK, PEER_NEW,
    PEER_UP, PROTOCOL_PIPELINE, TELL, engine_t, op_t, peer_t)
from pyrdv.engine.wire cimport (
    PACKET_CHECKED, PACKET_GRANT, PACKET_REFUSED, PACKET_TAKEN, WIRE_GRANT, WIRE_HEADER, grant_t,
    header_t)
from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_OK


cdef extern from "order.h" nogil:
    uint64_t observe64(const uint64_t *where)


cdef void receive_refused(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    op.flags |= OP_REFUSED
    op.error = OP_NOT_REGISTERED
    done_start(e, p, op)


cdef void receive_begin(engine_t *e, op_t *op) noexcept nogil:
    cdef lane_t *lane = passing(op).lane
    cdef uint32_t block = layout(e, lane.fabric, &lane.checked)
    op.state = OP_PIPING
    lane.streaming = copy_past_caches(op_wanted(op))
    if block != lane.block:
        # Data may stand where flags will (Q3).
        memset(lane.memory, 0, <uint64_t> LANE_BUFFERS * lanes_of(e).bytes)
        lane.block = block
    lane.room = payload_of(lanes_of(e).bytes, block)


cdef void pipe_receive(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int status = FABRIC_AGAIN
    if p.state != PEER_UP and p.state != PEER_NEW:
        op_complete(e, op, OP_PEER_LOST)
        return
    op.protocol = PROTOCOL_PIPELINE
    if pipe_peer(p).head[1] == NULL:
        status = lane_take(e, p, op, True)
    if status == FABRIC_OK:
        receive_begin(e, op)
    elif status == FABRIC_AGAIN:
        lane_wait(e, p, op, True)
    else:
        receive_refused(e, p, op)


cdef int grant_post(engine_t *e, peer_t *p, lane_t *lane) noexcept nogil:
    cdef grant_t g
    cdef int status
    cdef op_t *op = lane.op
    header_fill(p, &g.header, PACKET_GRANT, lanes_of(e).bytes, <int32_t> lane.block, op_wanted(op),
                op.cookie)
    g.header.sequence = lane.base
    g.header.flags = PACKET_CHECKED if lane.checked else 0
    g.address = <uint64_t> lane.memory
    g.key = lane.local.key
    g.receive = op_cookie(op)
    status = control_post(p, &g, WIRE_GRANT)
    if status == FABRIC_OK:
        lane.granted = 1
        if op.pairing & PAIR_ACK:
            # It answers the RTS as well as RTS-ACK would.
            e.policy.acknowledged(p, op)
    return status


cdef int taken_post(engine_t *e, peer_t *p, lane_t *lane) noexcept nogil:
    cdef header_t h
    cdef int status
    header_fill(p, &h, PACKET_TAKEN, 0, 0, 0, lane.op.cookie)
    h.sequence = lane.base + lane.taken
    status = control_post(p, &h, WIRE_HEADER)
    if status == FABRIC_OK:
        lane.told = lane.taken
        e.counters.takens_sent += 1
    return status


cdef int chunk_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef op_t *op = op_lookup(e, h.cookie)
    cdef lane_t *lane
    cdef uint32_t ahead
    if op == NULL or op.kind != OP_RECV or op.state != OP_PIPING or op.source != p.rank \
            or not passing(op).lane.granted:
        return VERDICT_ILLEGAL
    lane = passing(op).lane
    if h.flags & PACKET_REFUSED:
        if h.length:
            return VERDICT_ILLEGAL
        op_complete(e, op, OP_INVALID)
        lane_free(e, lane)
        return VERDICT_TAKEN
    ahead = h.sequence - lane.base - lane.taken
    if ahead >= LANE_BUFFERS or h.length == 0 or h.length > lane.room \
            or h.length > op_wanted(op) - lane.noticed:
        return VERDICT_ILLEGAL
    if lane.lengths[h.sequence % LANE_BUFFERS] or ahead == 0 and h.length < lane.within:
        return VERDICT_ILLEGAL
    lane.lengths[h.sequence % LANE_BUFFERS] = h.length
    lane.noticed += h.length
    return VERDICT_TAKEN


cdef bint block_take(engine_t *e, lane_t *lane, const char *block, uint64_t length,
                     bint sure) noexcept nogil:
    """Copy a block out; `sure`: it is known to be there (Q2), else its flag must say so (Q3)."""
    cdef char *to = lane.op.buffer + lane.offset
    cdef uint32_t number = lane.base + lane.taken
    cdef uint64_t word
    if lane.op.buffer == NULL:
        return sure             # nobody wants it (engine_forsake)
    if sure:
        copy_plain(to, block, length, lane.streaming)
        return True
    word = observe64(<const uint64_t *> (block + length))
    if <uint32_t> word != number or not lane.checked and word >> 32:
        return False
    if not lane.checked:
        copy_plain(to, block, length, lane.streaming)
    elif copy_checked(to, block, length, 0, lane.streaming) != word >> 32:
        e.counters.blocks_torn += 1
        return False
    e.counters.blocks_early += 1
    return True


cdef int take_blocks(engine_t *e, lane_t *lane, uint64_t *budget) noexcept nogil:
    """Copy out what is there of the present chunk; how many blocks."""
    cdef uint64_t known = lane.lengths[(lane.base + lane.taken) % LANE_BUFFERS]
    cdef const char *buffer = lane_buffer(e, lane, lane.base + lane.taken)
    cdef uint64_t unit = unit_of(lane.block)
    cdef uint64_t piece
    cdef int count = 0
    while budget[0]:
        if known:
            piece = known - lane.within
        else:
            piece = least(op_wanted(lane.op) - lane.offset, lane.room - lane.within)
        if lane.block:
            piece = least(piece, unit)
            if piece == 0 or not known and piece < unit:
                break
            if not block_take(e, lane, buffer + lane.within // unit * lane.block, piece,
                              known != 0):
                break
        else:
            if not known or piece == 0:
                break
            piece = least(piece, budget[0])
            block_take(e, lane, buffer + lane.within, piece, True)
        lane.within += piece
        lane.offset += piece
        budget[0] -= least(piece, budget[0])
        count += 1
    return count


cdef int receive_turn(engine_t *e, peer_t *p, lane_t *lane, uint64_t *budget) noexcept nogil:
    cdef int happened = 0
    cdef uint32_t at
    cdef op_t *op = lane.op
    if not lane.granted:
        if grant_post(e, p, lane) != FABRIC_OK:
            return 0
        happened = 1
    while budget[0]:
        at = (lane.base + lane.taken) % LANE_BUFFERS
        happened += take_blocks(e, lane, budget)
        if lane.lengths[at] == 0 or lane.within < lane.lengths[at]:
            break
        lane.lengths[at] = 0
        lane.within = 0
        lane.taken += 1
        if lane.offset == op_wanted(op):
            passing(op).lane = NULL
            lane_free(e, lane)
            done_start(e, p, op)
            return happened + 1
    # One packet for two chunks: the sender has a third buffer meanwhile.  It needs no place any
    # more once all of the message has come.
    if lane.taken - lane.told >= TELL and lane.noticed < op_wanted(op):
        happened += taken_post(e, p, lane) == FABRIC_OK
    if budget[0] == 0:
        e.pieces_due = 1
    return happened
