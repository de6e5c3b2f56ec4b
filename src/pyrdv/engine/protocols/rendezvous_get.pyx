# cython: language_level=3
"""Rendezvous by read: the receiver fetches the data from the sender's buffer.

sender                                      receiver
  RTS(cookie, address, key, length) ──────▶  matched now or later
                                    ◀ READ   into the receive's own buffer (R5)
                                    ◀─────   DONE(cookie, bytes), fenced behind the READ

With the ``classic`` pairing the receiver may owe the sender an RTS-ACK(cookie); it stands before
the first READ, in one chain with it, and is left out where DONE comes at once.

The last READ and the DONE are one chain: the send completes without either
CPU taking part.  A receive that is too small reads what fits and reports
truncation (R6: later messages are not harmed).  A READ is cut by the fabric's
``transfer_max``; the pieces follow one another.
"""
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.choice.choose cimport (
    CHOSEN, CHOSEN_LATER, CHOSEN_NEVER, choose_announced, choose_receive, place_missed)
from pyrdv.engine.choice.waiting cimport waiting_here
from pyrdv.engine.control cimport control_post, control_request, header_fill
from pyrdv.engine.event cimport TRACE_ANNOUNCE, TRACE_BEGIN
from pyrdv.engine.matching cimport message_keep, posted_find, posted_remove
from pyrdv.engine.op cimport op_complete, op_cookie, op_fit, op_lookup, op_matched, op_wanted
from pyrdv.engine.peer cimport announcement_posted, eager_limit, ready_append
from pyrdv.engine.pools cimport message_new, message_release
from pyrdv.engine.protocols.contract cimport (
    SERVED, SERVED_AGAIN, VERDICT_ILLEGAL, VERDICT_KEPT, VERDICT_TAKEN, protocol_t)
from pyrdv.engine.protocols.done cimport done_fill, done_start
from pyrdv.engine.protocols.pipe_in cimport pipe_receive
from pyrdv.engine.registering cimport op_register, op_sinks
from pyrdv.engine.state cimport (
    ANY_PEER, CHOICE_PIPELINE, OP_DONE_ONLY, OP_INVALID, OP_NOT_REGISTERED, OP_PEER_LOST, OP_POSTED,
    OP_QUEUED, OP_READING, OP_READY, OP_RECV, OP_REFUSED, OP_SEND, OP_UNWANTED, OP_WAITING,
    PAIR_ACK, PEER_NEW, PEER_UP, PROTOCOL_GET, PROTOCOL_NONE, PROTOCOL_PIPELINE, REASON_PEER,
    WAITS_HERE, WAITS_THERE, WAITS_WHOLE, call_t, engine_t, message_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_now, trace_op
from pyrdv.engine.wire cimport (
    PACKET_ADVICE, PACKET_PIPED, PACKET_RESUME_RTR, PACKET_RTS, PACKET_RTS_ACK, PACKET_STOP_RTR,
    PACKET_WAITING, WIRE_HEADER, WIRE_RTS, header_t, rts_t)
from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_READ, CAP_FREE_SINK, FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK,
    WR_FENCE, WR_READ, WR_SIGNALED, completion, fabric_t, work_request)


cdef enum:
    PAIRING = PACKET_STOP_RTR | PACKET_RESUME_RTR   # flags of RTS that are the policy's


cdef int rts_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef rts_t rts
    cdef int status
    header_fill(p, &rts.header, PACKET_RTS, op.context, op.tag, op.length, op_cookie(op))
    rts.header.content = op.content
    if e.policy.advise != NULL:
        e.policy.advise(e, p, &rts.header)
    if waiting_here(e, op):
        rts.header.flags |= PACKET_WAITING
    rts.address = rts.key = 0
    if op.protocol == PROTOCOL_PIPELINE:
        rts.header.flags |= PACKET_PIPED
    elif op.length:
        rts.address = <uint64_t> op.buffer
        rts.key = op.local.key
    status = control_post(p, &rts, WIRE_RTS)
    if status == FABRIC_OK:
        op.state = OP_WAITING
        op.total = op.length
        announcement_posted(e, p, &rts.header)
        trace_op(e, TRACE_ANNOUNCE, op, op.length, p.send_sequence - 1, 0)
        e.counters.sends_rendezvous += 1
    return status


cdef void get_start(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    if op_wanted(op) == 0:
        done_start(e, p, op)
    elif op.protocol == PROTOCOL_PIPELINE:
        pipe_receive(e, p, op)
    elif p.ready_head != NULL or get_serve(e, p, op) == SERVED_AGAIN:
        ready_append(e, p, op)


cdef inline void heard(engine_t *e, op_t *op, uint8_t flags) noexcept nogil:
    choose_announced(e, op, flags & PACKET_PIPED)
    if flags & PACKET_WAITING:
        op.waits |= WAITS_THERE


cdef int rts_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    cdef const rts_t *rts = <const rts_t *> h
    cdef op_t *op
    cdef message_t *m
    if h.flags & PAIRING & ~e.policy.rts_flags:
        return VERDICT_ILLEGAL
    op = posted_find(e, h.context, p.rank, h.tag)
    if op != NULL and op.kind == OP_RECV:
        posted_remove(e, op)
        if e.policy.met != NULL:
            e.policy.met(e, p, op, h)
        heard(e, op, h.flags)
        op_matched(e, op, p.rank, h.tag, h.length, h.content, p.recv_sequence)
        op.cookie = h.cookie
        op.remote = rts.address
        op.remote_key = rts.key
        get_start(e, p, op)
        place_missed(e, p, h.length)
        return VERDICT_TAKEN
    m = message_new(e, 0)
    if m == NULL:
        e.counters.packets_refused += 1
        return VERDICT_KEPT
    m.protocol = PROTOCOL_GET
    m.flags = h.flags & (PACKET_PIPED | PACKET_WAITING)
    m.peer = p.rank
    m.context = h.context
    m.tag = h.tag
    m.length = h.length
    m.cookie = h.cookie
    m.content = <uint8_t> h.content
    m.remote = rts.address
    m.remote_key = rts.key
    if e.policy.met != NULL:
        e.policy.met(e, p, NULL, h)
    message_keep(e, op, m)
    place_missed(e, p, h.length)
    return VERDICT_TAKEN


cdef void get_deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    heard(e, op, m.flags)
    op_matched(e, op, m.peer, m.tag, m.length, m.content, m.number)
    op.cookie = m.cookie
    op.remote = m.remote
    op.remote_key = m.remote_key
    if e.policy.rts_flags:
        op.pairing |= PAIR_ACK
    message_release(e, m)
    get_start(e, &e.peers[op.source], op)


cdef int rts_ack_arrived(engine_t *e, peer_t *p, const header_t *h,
                         const void *data) noexcept nogil:
    cdef op_t *op = op_lookup(e, h.cookie)
    if e.policy.rts_flags == 0 or op == NULL or op.kind != OP_SEND \
            or op.state != OP_WAITING or op.peer != p.rank:
        return VERDICT_ILLEGAL
    e.policy.answered(p, op)
    return VERDICT_TAKEN


cdef void acked(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    # With its RTS-ACK before it, or DONE behind it, RTRs of later receives may follow.
    e.policy.acknowledged(p, op)
    e.counters.rts_acks_sent += 1
    e.counters.extra_packets += 1
    e.counters.extra_bytes += WIRE_HEADER


cdef int get_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    """Post the next READ, behind RTS-ACK if that is owed, before DONE if the READ is the last."""
    cdef header_t h
    cdef header_t ack
    cdef work_request wr[3]
    cdef work_request *read = wr
    cdef int count = 1
    cdef uint64_t piece = op_wanted(op) - op.moved
    cdef int status
    if op.pairing & PAIR_ACK:
        header_fill(p, &ack, PACKET_RTS_ACK, op.context, op.source_tag, 0, op.cookie)
        control_request(read, &ack, WIRE_HEADER)
        read += 1
        count += 1
    memset(read, 0, sizeof(work_request))
    read.opcode = WR_READ
    read.flags = WR_SIGNALED
    read.local = op.buffer + op.moved
    read.local_key = op.local.key
    read.remote = op.remote + op.moved
    read.remote_key = op.remote_key
    read.id = op_cookie(op)
    read.length = piece if piece < p.fabric.transfer_max else p.fabric.transfer_max
    if read.length == piece:
        done_fill(e, p, op, &h)
        control_request(read + 1, &h, WIRE_HEADER)
        read[1].flags = WR_FENCE
        count += 1
    piece = read.length
    status = p.fabric.ops.post(p.fabric, p.rank, wr, count)
    if status == FABRIC_OK:
        if op.pairing & PAIR_ACK:
            acked(e, p, op)
        if op.moved == 0 and op.waits & WAITS_HERE:
            op.waits |= WAITS_WHOLE
            op.since = trace_now(e)
        op.moved += piece
        op.state = OP_READING
        e.counters.reads += 1
        trace_op(e, TRACE_BEGIN, op, piece, 0, 0)
        e.moving += 1
    elif status == FABRIC_AGAIN:
        return SERVED_AGAIN
    else:
        op_complete(e, op, OP_PEER_LOST)
    return SERVED


cdef int get_serve(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int status = CHOSEN
    if p.state != PEER_UP:
        if p.state == PEER_NEW:
            peer_call(e, p)
            return SERVED_AGAIN
        op_complete(e, op, OP_PEER_LOST)
        return SERVED
    if op.reason == REASON_PEER:
        status = choose_receive(e, p, op)
    if status == CHOSEN_LATER:
        return SERVED_AGAIN
    if status == CHOSEN_NEVER:
        # The sender must not wait for ever because this side has no memory.
        op.flags |= OP_REFUSED
        op.error = OP_NOT_REGISTERED
        op.moved = 0
        done_start(e, p, op)
        return SERVED
    if op.protocol == PROTOCOL_PIPELINE:
        pipe_receive(e, p, op)
        return SERVED
    return get_post(e, p, op)


cdef void get_ended(engine_t *e, op_t *op, const completion *c) noexcept nogil:
    cdef peer_t *p = &e.peers[op.source]
    if op.kind != OP_RECV or op.state != OP_READING:
        return
    e.moving -= 1
    if c.status == FABRIC_OK:
        if op.flags & OP_UNWANTED:
            done_start(e, p, op)
        elif op.moved < op_wanted(op):
            get_start(e, p, op)
        else:
            if e.policy.read != NULL:
                e.policy.read(e, p, op)
            op_complete(e, op, op_fit(op))
    elif c.status == FABRIC_LOST:
        op_complete(e, op, OP_PEER_LOST)
    else:
        op.flags |= OP_REFUSED
        op.error = OP_INVALID
        done_start(e, p, op)


cdef fabric_t *fabric_likely(engine_t *e, const op_t *op) noexcept nogil:
    """By which the data of receive `op` comes, if a region matters there."""
    cdef int i
    if op.source != ANY_PEER:
        return e.peers[op.source].fabric
    for i in range(e.fabric_count):
        if not e.fabrics[i].capabilities & CAP_FREE_SINK:
            return e.fabrics[i]
    return NULL


cdef void get_reserve(call_t *call, op_t *op) noexcept nogil:
    # For a posted receive of small messages nothing: they come by RTS only if their receiver has
    # taken few of the earlier ones, and then it must call anyway.
    cdef engine_t *e = &call.engine
    cdef fabric_t *fabric
    if e.protocol == CHOICE_PIPELINE:
        return
    if op.kind == OP_SEND and op.state == OP_QUEUED and op.protocol == PROTOCOL_NONE:
        op_register(call, op, e.peers[op.peer].fabric, ACCESS_REMOTE_READ)
    elif op.kind == OP_RECV and (op.state == OP_POSTED or op.state == OP_READY):
        fabric = fabric_likely(e, op)
        if fabric != NULL and not op_sinks(op, fabric) and (
                op.state == OP_READY or op.length > eager_limit(e, fabric)):
            op_register(call, op, fabric, ACCESS_LOCAL)


cdef bint get_forsake(call_t *call, op_t *op) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef peer_t *p = &e.peers[op.source]
    if op.state == OP_READY:
        # No READ is under way.  DONE alone is left, and lets the sender go.
        if not op.flags & OP_DONE_ONLY:
            op.length = 0
            op.flags |= OP_DONE_ONLY
        return True
    if op.state != OP_READING or p.fabric.ops.discard == NULL \
            or not p.fabric.ops.discard(p.fabric, p.rank, op_cookie(op)):
        return False
    if op.moved < op_wanted(op):
        op.length = 0
        op.flags |= OP_UNWANTED
    return True


cdef protocol_t operations
operations.name = b"get"
operations.code = PROTOCOL_GET
operations.reserve = get_reserve
operations.start = rts_post
operations.serve = get_serve
operations.ended = get_ended
operations.deliver = get_deliver
operations.forsake = get_forsake
operations.kind_count = 2
operations.kinds[0].kind = PACKET_RTS
operations.kinds[0].length = WIRE_RTS
operations.kinds[0].flags = PACKET_ADVICE | PACKET_PIPED | PACKET_WAITING | PAIRING
operations.kinds[0].announces = True
operations.kinds[0].arrived = rts_arrived
operations.kinds[1].kind = PACKET_RTS_ACK
operations.kinds[1].length = WIRE_HEADER
operations.kinds[1].arrived = rts_ack_arrived


cdef protocol_t *get_protocol() noexcept nogil:
    return &operations
