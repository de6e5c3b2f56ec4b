# cython: language_level=3
"""Rendezvous by write: a receive that comes first offers its buffer, the sender writes into it.

sender                                      receiver
                                    ◀─────   RTR(cookie, address, key, room, seen, ahead)
  START(cookie, length)             ─────▶   the announcement: matched (R4)
  WRITE                             ─────▶   into the receive's own buffer (R5)
  FIN(cookie, length), fenced       ─────▶   complete

START, the WRITE and FIN are one chain: neither CPU takes part in the transfer, and none is
needed to end it.  The send is complete when its WRITE is handed over.  A WRITE is cut by the
fabric's ``transfer_max``; the pieces follow one another.

The offer is a guess: the message may go eager, be too long for the room, or be announced by
RTS before the RTR comes.  Which send an RTR is meant for, and that no other one uses it, is the
affair of the policy (``speculation``).

sender                                      receiver
                                    ◀─────   REVOKE: a receive is cancelled
  forgets all RTRs of this receiver
  REVOKED                           ─────▶   whatever was not matched meanwhile is cancelled

Invariants:

W1  A receive whose RTR may be out leaves the posted index only by a match, or after REVOKED,
    or when its peer sends nothing any more.  So a START always finds its receive.
W2  REVOKED is never fenced and comes behind every START that used a revoked RTR (F1).
W3  One REVOKE is under way at a time, and no RTR is sent meanwhile.  So REVOKED speaks of
    every RTR that was ever sent.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.choice.choose cimport choose_offer, offer_for
from pyrdv.engine.control cimport control_post, control_request, header_fill
from pyrdv.engine.digest cimport mix
from pyrdv.engine.event cimport TRACE_ANNOUNCE, TRACE_BEGIN, TRACE_OFFER, TRACE_USED
from pyrdv.engine.protocols.lanes cimport lanes_keep
from pyrdv.engine.matching cimport posted_find, posted_remove
from pyrdv.engine.op cimport op_complete, op_cookie, op_fit, op_lookup, op_matched
from pyrdv.engine.peer cimport announcement_posted, peer_activate, peer_connect, ready_append
from pyrdv.engine.protocols.contract cimport (
    SERVED, SERVED_AGAIN, VERDICT_ILLEGAL, VERDICT_TAKEN, protocol_t)
from pyrdv.engine.registering cimport op_register
from pyrdv.engine.speculation.history cimport history_forbids, history_sent, history_used
from pyrdv.engine.speculation.offers cimport offers_clear
from pyrdv.engine.state cimport (
    ANY_PEER, ANY_TAG_, OPS_PER_SLAB, OP_CANCELLED, OP_CANCELLING, OP_INVALID, OP_LANDING,
    OP_OFFERED, OP_PEER_LOST, OP_POSTED, OP_RECV, OP_REFUSED, OP_SEND, OP_WRITING, PEER_NEW,
    PEER_UP, PROTOCOL_PUT, REASON_OFFER, call_t, engine_t, node_t, offer_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_now, trace_op
from pyrdv.engine.wire cimport (
    PACKET_ADVICE, PACKET_FIN, PACKET_REFUSED, PACKET_REVOKE, PACKET_REVOKED, PACKET_RTR,
    PACKET_START, WIRE_HEADER, WIRE_RTR, WIRE_RTS, header_t, rtr_t)
from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_WRITE, FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK, WR_FENCE, WR_SIGNALED,
    WR_WRITE, completion, work_request)
from pyrdv.memory.mappings cimport cache_used


cdef protocol_t operations

cdef enum revoke_state:
    REVOKE_NONE = 0
    REVOKE_WANTED = 1           # REVOKE is to be posted
    REVOKE_SENT = 2
    REVOKE_ANSWERED = 3         # REVOKED came; its consequences are for the next call

cdef struct revoke_t:           # of one peer
    uint8_t revoking            # revoke_state of the RTRs we sent
    uint8_t owed                # it revoked its RTRs: REVOKED is to be posted


cdef inline revoke_t *own(const peer_t *p) noexcept nogil:
    return <revoke_t *> (p.own + operations.peer_offset)


cdef bint revoking(const peer_t *p) noexcept nogil:
    return own(p).revoking != REVOKE_NONE


# The receiver's side -----------------------------------------------------------

cdef void rtr_offer(call_t *call, op_t *op) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef peer_t *p
    cdef rtr_t rtr
    cdef uint32_t ahead
    cdef uint64_t begun
    cdef bint held
    if op.kind != OP_RECV or op.peer == ANY_PEER or op.tag == ANY_TAG_ \
            or op.flags & (OP_OFFERED | OP_CANCELLING):
        return
    p = &e.peers[op.peer]
    if not predicted(e, p, op.length) or revoking(p) or p.finish_told \
            or not choose_offer(call, p, op, &held):
        return
    if not e.policy.may_offer(e, op, &ahead):
        e.counters.rtrs_barred += 1
        return
    if history_forbids(e, op):
        e.counters.rtrs_withheld += 1
        return
    if e.policy.withholds(e, op):
        return
    if p.state == PEER_NEW:
        peer_connect(call, p)
    lanes_keep(call, p)
    begun = trace_now(e)
    # A guess that must wait is not worth a queue.
    if p.state != PEER_UP or op_register(
            call, op, p.fabric, ACCESS_LOCAL | ACCESS_REMOTE_WRITE):
        return
    if not held:
        # Whoever reads the message uses what was registered for the offer.
        begun = trace_now(e)
    header_fill(p, &rtr.header, PACKET_RTR, op.context, op.tag, op.length, op_cookie(op))
    rtr.header.sequence = p.recv_sequence
    rtr.address = <uint64_t> op.buffer
    rtr.key = op.local.key
    rtr.ahead = ahead
    rtr.reserved = 0
    if control_post(p, &rtr, WIRE_RTR) == FABRIC_OK:
        op.flags |= OP_OFFERED
        e.counters.rtrs_sent += 1
        trace_op(e, TRACE_OFFER, op, op.length, 0, 0)
        cache_used(e.cache, op.owner)
        history_sent(call, op)
        if e.policy.offered != NULL:
            e.policy.offered(call, op, trace_now(e) - begun)
        e.counters.extra_packets += 1
        e.counters.extra_bytes += WIRE_RTR


cdef int start_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef op_t *op = op_lookup(e, h.cookie)
    if op == NULL or op.kind != OP_RECV or op.state != OP_POSTED or not op.flags & OP_OFFERED \
            or op.peer != p.rank or op.context != h.context or op.tag != h.tag \
            or h.length > op.length or posted_find(e, h.context, p.rank, h.tag) != op:
        return VERDICT_ILLEGAL
    posted_remove(e, op)
    if e.policy.met != NULL:
        e.policy.met(e, p, op, h)
    history_used(e, p, h)
    # It took the place of an RTS, and FIN that of DONE.
    e.counters.extra_bytes -= WIRE_RTS - WIRE_HEADER
    op.protocol = PROTOCOL_PUT
    op.reason = REASON_OFFER
    op_matched(e, op, p.rank, h.tag, h.length, h.content, p.recv_sequence)
    op.state = OP_LANDING
    return VERDICT_TAKEN


cdef int fin_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef op_t *op = op_lookup(e, h.cookie)
    cdef bint refused = h.flags & PACKET_REFUSED
    if op == NULL or op.kind != OP_RECV or op.state != OP_LANDING or op.peer != p.rank \
            or h.length != (0 if refused else op.total):
        return VERDICT_ILLEGAL
    op_complete(e, op, OP_INVALID if refused else op_fit(op))
    return VERDICT_TAKEN


# The sender's side -------------------------------------------------------------

cdef int rtr_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef const rtr_t *rtr = <const rtr_t *> h
    if h.tag < 0 or rtr.reserved or p.finished \
            or <int32_t> (p.send_sequence - h.sequence) < 0:
        return VERDICT_ILLEGAL
    e.counters.rtrs_received += 1
    e.policy.arrived(e, p, rtr)
    return VERDICT_TAKEN


cdef void fin_fill(peer_t *p, const op_t *op, header_t *h) noexcept nogil:
    header_fill(p, h, PACKET_FIN, op.context, op.tag, op.length, op.cookie)
    if op.flags & OP_REFUSED:
        h.flags = PACKET_REFUSED
        h.length = 0


cdef int put_post(engine_t *e, peer_t *p, op_t *op, header_t *start) noexcept nogil:
    """Post the next piece: behind START if it is the first, before FIN if it is the last."""
    cdef header_t fin
    cdef work_request wr[3]
    cdef int count = 0
    cdef int status
    cdef uint64_t piece = op.length - op.moved
    if start != NULL:
        control_request(&wr[0], start, WIRE_HEADER)
        count = 1
    memset(&wr[count], 0, sizeof(work_request))
    wr[count].opcode = WR_WRITE
    wr[count].flags = WR_SIGNALED
    wr[count].local = op.buffer + op.moved
    wr[count].local_key = op.local.key
    wr[count].remote = op.remote + op.moved
    wr[count].remote_key = op.remote_key
    wr[count].id = op_cookie(op)
    wr[count].length = piece if piece < p.fabric.transfer_max else p.fabric.transfer_max
    piece = wr[count].length
    count += 1
    if op.moved + piece == op.length:
        fin_fill(p, op, &fin)
        control_request(&wr[count], &fin, WIRE_HEADER)
        wr[count].flags = WR_FENCE
        count += 1
    status = p.fabric.ops.post(p.fabric, p.rank, wr, count)
    if status == FABRIC_OK:
        op.moved += piece
        op.state = OP_WRITING
        e.counters.writes += 1
        e.moving += 1
        trace_op(e, TRACE_BEGIN, op, piece, 0, 0)
    return status


cdef int start_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef const offer_t *offer = offer_for(e, p, op)
    cdef header_t h
    cdef int status
    op.cookie = offer.cookie
    op.remote = offer.address
    op.remote_key = offer.key
    op.moved = 0
    header_fill(p, &h, PACKET_START, op.context, op.tag, op.length, op.cookie)
    h.content = op.content
    if e.policy.advise != NULL:
        e.policy.advise(e, p, &h)
    status = put_post(e, p, op, &h)
    if status == FABRIC_OK:
        announcement_posted(e, p, &h)
        e.counters.sends_rendezvous += 1
        e.counters.rtrs_used += 1
        trace_op(e, TRACE_USED, op, op.length, 0, 0)
        trace_op(e, TRACE_ANNOUNCE, op, op.length, p.send_sequence - 1, 0)
    return status


cdef int put_serve(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef header_t fin
    cdef int status = FABRIC_LOST
    if p.state == PEER_UP and not op.flags & OP_REFUSED:
        status = put_post(e, p, op, NULL)
    elif p.state == PEER_UP:
        fin_fill(p, op, &fin)
        status = control_post(p, &fin, WIRE_HEADER)
        if status == FABRIC_OK:
            op_complete(e, op, op.error)
    if status == FABRIC_AGAIN:
        return SERVED_AGAIN
    if status != FABRIC_OK:
        op_complete(e, op, OP_PEER_LOST)
    return SERVED


cdef void put_ended(engine_t *e, op_t *op, const completion *c) noexcept nogil:
    cdef peer_t *p = &e.peers[op.peer]
    if op.kind != OP_SEND or op.state != OP_WRITING:
        return
    e.moving -= 1
    if c.status == FABRIC_OK and op.moved == op.length:
        op_complete(e, op, 0)
        return
    if c.status == FABRIC_LOST:
        op_complete(e, op, OP_PEER_LOST)
        return
    if c.status != FABRIC_OK:
        # The FIN behind it went with it; the receive must not wait for ever.
        op.flags |= OP_REFUSED
        op.error = OP_INVALID
    if p.ready_head != NULL or put_serve(e, p, op) == SERVED_AGAIN:
        ready_append(e, p, op)


# Taking RTRs back --------------------------------------------------------------

cdef bint revoke_needed(const op_t *op) noexcept nogil:
    cdef const node_t *at = &op.node
    while at != NULL:
        if (<op_t *> at.entry).flags & OP_OFFERED:
            return True
        at = at.next
    return False


cdef void revoke_start(engine_t *e, op_t *op) noexcept nogil:
    cdef peer_t *p = &e.peers[op.peer]
    op.flags |= OP_CANCELLING
    if own(p).revoking == REVOKE_NONE:
        own(p).revoking = REVOKE_WANTED
        revoke_owed(e, p)


cdef bint revoke_post(engine_t *e, peer_t *p, int kind) noexcept nogil:
    cdef header_t h
    header_fill(p, &h, kind, 0, 0, 0, 0)
    if control_post(p, &h, WIRE_HEADER) != FABRIC_OK:
        return False
    e.counters.extra_packets += 1
    e.counters.extra_bytes += WIRE_HEADER
    return True


cdef void revoke_owed(engine_t *e, peer_t *p) noexcept nogil:
    if own(p).revoking != REVOKE_WANTED and not own(p).owed:
        return
    if p.state == PEER_UP:
        if own(p).owed and revoke_post(e, p, PACKET_REVOKED):
            own(p).owed = 0
        if own(p).revoking == REVOKE_WANTED and revoke_post(e, p, PACKET_REVOKE):
            own(p).revoking = REVOKE_SENT
            e.counters.revokes_sent += 1
        if own(p).revoking == REVOKE_WANTED or own(p).owed:
            peer_activate(e, p)
    elif p.state == PEER_NEW:
        peer_call(e, p)
        peer_activate(e, p)


cdef int revoke_arrived(engine_t *e, peer_t *p, const header_t *h,
                        const void *data) noexcept nogil:
    if own(p).owed or p.finished:
        return VERDICT_ILLEGAL
    e.counters.rtrs_revoked += offers_clear(e, p)
    own(p).owed = 1
    peer_activate(e, p)
    return VERDICT_TAKEN


cdef int revoked_arrived(engine_t *e, peer_t *p, const header_t *h,
                         const void *data) noexcept nogil:
    if own(p).revoking != REVOKE_SENT:
        return VERDICT_ILLEGAL
    own(p).revoking = REVOKE_ANSWERED
    peer_call(e, p)
    return VERDICT_TAKEN


cdef inline bint posted_to(const op_t *op, const peer_t *p) noexcept nogil:
    return op.state == OP_POSTED and op.peer == p.rank


cdef void offer_queue(call_t *call, node_t *leader) noexcept nogil:
    """Offer the receives of one envelope, in the order of their posting."""
    cdef node_t *at = leader
    while at != NULL:
        rtr_offer(call, <op_t *> at.entry)
        at = at.next


cdef int revoke_act(call_t *call, peer_t *p) noexcept nogil:
    """REVOKED came: cancel what waited for it, offer the rest anew."""
    cdef engine_t *e = &call.engine
    cdef uint32_t slab
    cdef int i
    cdef op_t *op
    if own(p).revoking != REVOKE_ANSWERED or p.finished:
        return 0
    own(p).revoking = REVOKE_NONE
    for slab in range(e.op_slab_count):
        for i in range(OPS_PER_SLAB):
            op = &e.op_slabs[slab][i]
            if not posted_to(op, p):
                continue
            op.flags &= <unsigned char> ~OP_OFFERED
            if op.flags & OP_CANCELLING:
                posted_remove(e, op)
                op_complete(e, op, OP_CANCELLED)
    # Only now: how many are ahead of one is known when all cancelled ones are gone.
    for slab in range(e.op_slab_count):
        for i in range(OPS_PER_SLAB):
            op = &e.op_slabs[slab][i]
            if posted_to(op, p) and op.node.prev == NULL:
                offer_queue(call, &op.node)
    return 1


cdef void put_gone(call_t *call, peer_t *p, bint everything) noexcept nogil:
    offers_clear(&call.engine, p)
    own(p).revoking = REVOKE_NONE


cdef void put_hash(const peer_t *p, uint64_t *h) noexcept nogil:
    mix(h, <uint64_t> own(p).revoking << 4 | own(p).owed)


operations.name = b"put"
operations.code = PROTOCOL_PUT
operations.start = start_post
operations.serve = put_serve
operations.ended = put_ended
operations.owed = revoke_owed
operations.act = revoke_act
operations.peer_gone = put_gone
operations.peer_bytes = sizeof(revoke_t)
operations.hash = put_hash
operations.kind_count = 5
operations.kinds[0].kind = PACKET_RTR
operations.kinds[0].length = WIRE_RTR
operations.kinds[0].arrived = rtr_arrived
operations.kinds[1].kind = PACKET_START
operations.kinds[1].length = WIRE_HEADER
operations.kinds[1].flags = PACKET_ADVICE
operations.kinds[1].announces = True
operations.kinds[1].arrived = start_arrived
operations.kinds[2].kind = PACKET_FIN
operations.kinds[2].length = WIRE_HEADER
operations.kinds[2].flags = PACKET_REFUSED
operations.kinds[2].arrived = fin_arrived
operations.kinds[3].kind = PACKET_REVOKE
operations.kinds[3].length = WIRE_HEADER
operations.kinds[3].arrived = revoke_arrived
operations.kinds[4].kind = PACKET_REVOKED
operations.kinds[4].length = WIRE_HEADER
operations.kinds[4].arrived = revoked_arrived


cdef protocol_t *put_protocol() noexcept nogil:
    return &operations
