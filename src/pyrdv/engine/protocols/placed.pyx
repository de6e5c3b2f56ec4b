# cython: language_level=3
"""Placed: a message is written into buffers that its receiver has set aside, without asking.

sender                                      receiver
                                    ◀─────   STAND(address, key, bytes), once
  copies the data
  WRITE into a buffer, PLACED behind ───▶    posted receive: copied out of the buffer
                                             none posted: it stays there until one is
                                    ◀─────   in any packet: buffers given back
  (SYNC only)                       ◀─────   DONE(cookie), once matched and copied

For messages that one bounce buffer holds and for which copying twice costs hardly more than asking
first: no round trip, no registration, and neither side waits for the other, so both may compute.
The announcement comes when the data is there, so for the receiver it is like eager.

After the "RDMA fast path" of eager messages in MVAPICH (Liu et al., "High Performance RDMA-Based
MPI Implementation over InfiniBand", 2003), but announced by packets instead of polled in memory,
and for messages as long as a chunk of the superpipeline.

Invariants:

Z1  Messages use the buffers in turn.  A sender uses one only if it knows that it was given back;
    else the message takes another protocol.  So it never waits for a buffer, and a receive that is
    never posted holds up only its own message.
Z2  Buffers are given back in the order of the messages, and told in every packet; by CREDIT if
    TELL of them are not told yet.  So if nothing stays unmatched, a sender gets one again.
Z3  PLACED is behind its WRITE (F9), and takes its place in the order of announcements.
Z4  The send is complete when its data is in a buffer of the sender, for standard mode may buffer.
    That buffer is used again only when its WRITE is complete (F4).
Z5  A peer gets buffers after `standing_after` messages for which they would have been good, and
    keeps them: it may write into them as long as the connection lives, and nobody else may (B4).
    `standing_most` peers get some, and all that they hold is bounded; for the others nothing
    changes, until one of those is gone.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.control cimport control_post, control_request, header_fill
from pyrdv.engine.copying cimport copy_past_caches, copy_plain
from pyrdv.engine.digest cimport mix
from pyrdv.engine.event cimport TRACE_ANNOUNCE
from pyrdv.engine.pools cimport message_new, message_release
from pyrdv.engine.protocols.lanes cimport (
    LANE_BUFFERS, lane_buffer, lane_id, lane_stand, lane_t, lane_unstand, lanes_of)
from pyrdv.engine.matching cimport message_keep, posted_find, posted_remove
from pyrdv.engine.op cimport op_complete, op_cookie, op_fit, op_matched
from pyrdv.engine.peer cimport announcement_posted, peer_activate
from pyrdv.engine.protocols.contract cimport (
    VERDICT_ILLEGAL, VERDICT_KEPT, VERDICT_TAKEN, protocol_t)
from pyrdv.engine.protocols.done cimport done_start
from pyrdv.engine.state cimport (
    OP_OFFERED, OP_RECV, OP_SYNC, OP_WAITING, PEER_NEW, PEER_UP, PROTOCOL_PLACED, REASON_PEER, TELL,
    call_t, engine_t, message_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_op
from pyrdv.engine.wire cimport (
    PACKET_ADVICE, PACKET_PLACED, PACKET_STAND, PACKET_SYNC, WIRE_HEADER, WIRE_RTS, header_t, rts_t)
from pyrdv.fabrics.contract cimport (
    CAP_BEHIND, FABRIC_AGAIN, FABRIC_OK, WR_BEHIND, WR_SIGNALED, WR_WRITE, work_request)
from pyrdv.memory.mappings cimport cache_used


cdef protocol_t operations

cdef enum stand_state:          # of the standing buffers of one direction
    STAND_NONE = 0
    STAND_WANTED = 1            # a call is to make the lane
    STAND_OWED = 2              # receiving: STAND is to be posted
    STAND_UP = 3
    STAND_NEVER = 4             # there could be no lane

cdef struct standing_t:         # of one peer and direction
    uint8_t state               # stand_state
    uint8_t slot                # buffer of the next message
    uint8_t slot_freed          # receiving: of the oldest message that has not given it back
    uint8_t early               # receiving: bit i, buffer i was given back before an older one
    uint32_t large              # receiving: messages that it would have been good for
    uint32_t used               # receiving: messages so far, modulo 2**32
    uint32_t bytes              # that a message may have
    uint32_t stride             # sending: bytes from one buffer of the peer to the next
    lane_t *lane                # own memory: what is written into, or from
    op_t *op                    # sending: whose data the next buffer holds already, or NULL
    uint64_t address            # sending: of the peer's buffers
    uint64_t key


cdef inline standing_t *sending(const peer_t *p) noexcept nogil:
    return <standing_t *> (p.own + operations.peer_offset)


cdef inline standing_t *receiving(const peer_t *p) noexcept nogil:
    return <standing_t *> (p.own + operations.peer_offset) + 1


cdef inline uint8_t following(uint8_t slot) noexcept nogil:
    return <uint8_t> (slot + 1 if slot + 1 < LANE_BUFFERS else 0)


cdef bint place_able(const engine_t *e, const peer_t *p) noexcept nogil:
    return p.fabric.capabilities & CAP_BEHIND != 0 and e.policy.rts_flags == 0


cdef bint place_welcome(const engine_t *e, const peer_t *p, uint64_t length) noexcept nogil:
    cdef const standing_t *s = receiving(p)
    return place_able(e, p) and length <= lanes_of(e).bytes and s.state != STAND_NEVER \
        and (s.state != STAND_NONE or lanes_of(e).standing_count[1] < lanes_of(e).standing_most)


# The sender's side -------------------------------------------------------------

cdef bint place_ready(const peer_t *p, uint64_t length) noexcept nogil:
    cdef const standing_t *s = sending(p)
    return (s.state == STAND_UP and 0 < length <= s.bytes and s.op == NULL
            and p.placed - p.freed[0] < LANE_BUFFERS and not s.lane.busy >> s.slot & 1)


cdef void place_fill(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef standing_t *s = sending(p)
    copy_plain(lane_buffer(e, s.lane, s.slot), op.buffer, op.length, False)
    s.op = op


cdef bint place_lane(const peer_t *p, const lane_t *lane) noexcept nogil:
    return lane == sending(p).lane


cdef void place_drop(peer_t *p, const op_t *op) noexcept nogil:
    if sending(p).op == op:
        sending(p).op = NULL


cdef int place_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef standing_t *s = sending(p)
    cdef header_t h
    cdef work_request wr[2]
    cdef int status
    memset(&wr[0], 0, sizeof(work_request))
    wr[0].opcode = WR_WRITE
    wr[0].flags = WR_SIGNALED
    wr[0].local = lane_buffer(e, s.lane, s.slot)
    wr[0].local_key = s.lane.local.key
    wr[0].remote = s.address + <uint64_t> s.slot * s.stride
    wr[0].remote_key = s.key
    wr[0].length = op.length
    wr[0].id = lane_id(s.lane, s.slot)
    header_fill(p, &h, PACKET_PLACED, op.context, op.tag, op.length,
                op_cookie(op) if op.flags & OP_SYNC else 0)
    h.content = op.content
    if e.policy.advise != NULL:
        e.policy.advise(e, p, &h)
    if op.flags & OP_SYNC:
        h.flags |= PACKET_SYNC
    control_request(&wr[1], &h, WIRE_HEADER)
    wr[1].flags = WR_BEHIND
    status = p.fabric.ops.post(p.fabric, p.rank, wr, 2)
    if status == FABRIC_AGAIN:
        return status
    s.op = NULL
    if status != FABRIC_OK:
        return status
    s.lane.busy |= <uint8_t> (1 << s.slot)
    s.slot = following(s.slot)
    p.placed += 1
    e.moving += 1
    e.counters.writes += 1
    e.counters.sends_placed += 1
    announcement_posted(e, p, &h)
    trace_op(e, TRACE_ANNOUNCE, op, op.length, p.send_sequence - 1, 0)
    if op.flags & OP_SYNC:
        op.state = OP_WAITING
    else:
        op.born = 0             # it says nothing of longer ones
        op_complete(e, op, 0)
    return FABRIC_OK


cdef int stand_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef const rts_t *stand = <const rts_t *> h
    cdef standing_t *s = sending(p)
    if s.state != STAND_NONE or p.finished or h.context == 0 or not place_able(e, p):
        return VERDICT_ILLEGAL
    s.stride = h.context
    s.bytes = <uint32_t> min(<uint64_t> min(s.stride, lanes_of(e).bytes), p.fabric.transfer_max)
    s.address = stand.address
    s.key = stand.key
    s.state = STAND_WANTED
    peer_call(e, p)
    return VERDICT_TAKEN


# The receiver's side -----------------------------------------------------------

cdef void stand_consider(engine_t *e, peer_t *p) noexcept nogil:
    cdef standing_t *s = receiving(p)
    if s.state != STAND_NONE:
        return
    s.large += 1
    if s.large >= lanes_of(e).standing_after:
        s.state = STAND_WANTED
        peer_call(e, p)


cdef int stand_act(call_t *call, peer_t *p) noexcept nogil:
    """Make the buffers that are wanted, of either direction."""
    cdef engine_t *e = &call.engine
    cdef standing_t *s
    cdef int way
    if p.finished:
        return 0
    for way in range(2):
        s = sending(p) + way
        if s.state != STAND_WANTED:
            continue
        s.lane = lane_stand(call, p, way)
        if s.lane == NULL:
            s.state = STAND_NEVER
        elif way:
            s.bytes = lanes_of(e).bytes
            s.state = STAND_OWED
            peer_activate(e, p)
        else:
            s.state = STAND_UP
    return 0


cdef void stand_gone(call_t *call, peer_t *p, bint everything) noexcept nogil:
    """Nothing is placed any more; what is not in use is for others, if all is over."""
    cdef standing_t *s
    cdef int way
    for way in range(2 if everything else 1):
        s = sending(p) + way
        s.op = NULL
        s.state = STAND_NEVER
        # Messages that were not received lie there still.
        if everything and s.lane != NULL and not s.lane.busy \
                and (not way or s.used == p.freed[1]):
            lane_unstand(&call.engine, s.lane)
            s.lane = NULL


cdef void stand_hash(const peer_t *p, uint64_t *h) noexcept nogil:
    cdef const standing_t *s
    cdef int way
    for way in range(2):
        s = sending(p) + way
        if s.state:
            mix(h, <uint64_t> s.state << 40 | <uint64_t> s.slot << 24
                | <uint64_t> s.slot_freed << 16 | <uint64_t> s.early << 8
                | (s.lane.busy if s.lane != NULL else 0))
            mix(h, <uint64_t> s.used << 32 | (s.op.index if s.op != NULL else 0xFFFFFFFFu))
        mix(h, s.large)


cdef void stand_owed(engine_t *e, peer_t *p) noexcept nogil:
    cdef standing_t *s = receiving(p)
    cdef rts_t stand
    if s.state != STAND_OWED:
        return
    if p.state != PEER_UP or p.finished or p.finish_told:
        if p.state == PEER_NEW:
            peer_call(e, p)
            peer_activate(e, p)
        return
    header_fill(p, &stand.header, PACKET_STAND, s.bytes, 0, 0, 0)
    stand.address = <uint64_t> s.lane.memory
    stand.key = s.lane.local.key
    if control_post(p, &stand, WIRE_RTS) == FABRIC_OK:
        s.state = STAND_UP
    else:
        peer_activate(e, p)


cdef void give_back(engine_t *e, peer_t *p, uint8_t slot) noexcept nogil:
    cdef standing_t *s = receiving(p)
    s.early |= <uint8_t> (1 << slot)
    while s.early >> s.slot_freed & 1:
        s.early &= <uint8_t> ~(1 << s.slot_freed)
        s.slot_freed = following(s.slot_freed)
        p.freed[1] += 1
    if p.freed[1] - p.freed_told >= TELL:
        peer_activate(e, p)


cdef inline void taken(op_t *op) noexcept nogil:
    op.protocol = PROTOCOL_PLACED
    op.reason = REASON_PEER


cdef void take(engine_t *e, peer_t *p, op_t *op, uint8_t slot, uint64_t length, bint sync,
               uint64_t cookie) noexcept nogil:
    """Copy a matched message out; `sync`: its sender waits for DONE(`cookie`)."""
    cdef uint64_t room = length if length < op.length else op.length
    if room:
        copy_plain(op.buffer, lane_buffer(e, receiving(p).lane, slot), room,
                   copy_past_caches(room))
    give_back(e, p, slot)
    cache_used(e.cache, op.owner)
    if sync:
        op.cookie = cookie
        done_start(e, p, op)
    else:
        op_complete(e, op, op_fit(op))


cdef int placed_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef standing_t *s = receiving(p)
    cdef uint8_t slot = s.slot
    cdef op_t *op
    cdef message_t *m = NULL
    if s.state != STAND_UP or h.length == 0 or h.length > s.bytes \
            or s.used - p.freed[1] >= LANE_BUFFERS:
        return VERDICT_ILLEGAL
    op = posted_find(e, h.context, p.rank, h.tag)
    if op == NULL or op.kind != OP_RECV:
        m = message_new(e, 0)
        if m == NULL:
            e.counters.packets_refused += 1
            return VERDICT_KEPT
        m.protocol = PROTOCOL_PLACED
        m.peer = p.rank
        m.context = h.context
        m.tag = h.tag
        m.length = h.length
        m.flags = h.flags
        m.cookie = h.cookie
        m.content = <uint8_t> h.content
        m.slot = slot
    s.slot = following(slot)
    s.used += 1
    if op == NULL or op.kind != OP_RECV:
        message_keep(e, op, m)
        return VERDICT_TAKEN
    posted_remove(e, op)
    if op.flags & OP_OFFERED and e.policy.met != NULL:
        e.policy.met(e, p, op, h)
    taken(op)
    op_matched(e, op, p.rank, h.tag, h.length, h.content, p.recv_sequence)
    take(e, p, op, slot, h.length, h.flags & PACKET_SYNC, h.cookie)
    return VERDICT_TAKEN


cdef void placed_deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    cdef peer_t *p = &e.peers[m.peer]
    cdef uint64_t cookie = m.cookie
    cdef uint64_t length = m.length
    cdef bint sync = m.flags & PACKET_SYNC
    cdef uint8_t slot = m.slot
    taken(op)
    op_matched(e, op, m.peer, m.tag, length, m.content, m.number)
    message_release(e, m)
    take(e, p, op, slot, length, sync, cookie)


operations.name = b"placed"
operations.code = PROTOCOL_PLACED
operations.start = place_post
operations.deliver = placed_deliver
operations.owed = stand_owed
operations.act = stand_act
operations.peer_gone = stand_gone
operations.peer_bytes = 2 * sizeof(standing_t)
operations.hash = stand_hash
operations.kind_count = 2
operations.kinds[0].kind = PACKET_PLACED
operations.kinds[0].length = WIRE_HEADER
operations.kinds[0].flags = PACKET_SYNC | PACKET_ADVICE
operations.kinds[0].announces = True
operations.kinds[0].arrived = placed_arrived
operations.kinds[1].kind = PACKET_STAND
operations.kinds[1].length = WIRE_RTS
operations.kinds[1].arrived = stand_arrived


cdef protocol_t *placed_protocol() noexcept nogil:
    return &operations
