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

from pyrdv.engine.lanes cimport lanes_keep
from pyrdv.engine.matching cimport message_keep, posted_find, posted_remove
from pyrdv.engine.op cimport (
    message_new, message_release, op_complete, op_cookie, op_fit, op_lookup,
    op_matched, op_register)
from pyrdv.engine.peer cimport announcement_posted, header_fill, ready_append
from pyrdv.engine.protocols.done cimport done_fill, done_start
from pyrdv.engine.protocols.pipe_in cimport pipe_receive
from pyrdv.engine.protocols.pipe_out cimport pipe_announced
from pyrdv.engine.protocols.select cimport receive_piped
from pyrdv.engine.speculation.adaptation cimport advice
from pyrdv.engine.state cimport (
    CHOICE_GET, CHOICE_PIPELINE, MESSAGE_RTS, OP_INVALID, OP_NOT_REGISTERED, OP_PEER_LOST,
    OP_PIPED, OP_READING, OP_RECV, OP_REFUSED, OP_REGISTERED, OP_SEND, OP_WAITING, PAIR_ACK,
    PEER_NEW, PEER_UP, WAITS_THERE, engine_t, message_t, op_t, peer_t)
from pyrdv.engine.waiting cimport waiting_here
from pyrdv.engine.wire cimport (
    PACKET_PIPED, PACKET_RTS, PACKET_RTS_ACK, PACKET_WAITING, WIRE_HEADER, WIRE_RTS,
    header_t, rts_t)
from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK, WR_FENCE, WR_READ, WR_SEND, WR_SIGNALED,
    completion, work_request)


cdef int rts_post(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef rts_t rts
    cdef work_request wr
    cdef int status
    header_fill(p, &rts.header, PACKET_RTS, op.context, op.tag, op.length, op_cookie(op))
    rts.header.content = op.content
    rts.header.flags = advice(e, p, op.context, op.tag)
    if e.policy != NULL and e.policy.advice != NULL:
        rts.header.flags |= e.policy.advice(e, p, op.context, op.tag)
    if waiting_here(e, op):
        rts.header.flags |= PACKET_WAITING
    rts.address = rts.key = 0
    if op.flags & OP_PIPED:
        rts.header.flags |= PACKET_PIPED
    elif op.length:
        rts.address = <uint64_t> op.buffer
        rts.key = op.local.key
    memset(&wr, 0, sizeof(wr))
    wr.opcode = WR_SEND
    wr.header = &rts
    wr.header_length = WIRE_RTS
    status = p.fabric.ops.post(p.fabric, p.rank, &wr, 1)
    if status == FABRIC_OK:
        op.state = OP_WAITING
        op.total = op.length
        announcement_posted(e, p, &rts.header)
        e.counters.sends_rendezvous += 1
        if op.flags & OP_PIPED:
            pipe_announced(e, p, op)
    return status


cdef inline void packet_request(work_request *wr, const header_t *h, int flags) noexcept nogil:
    wr.opcode = WR_SEND
    wr.flags = flags
    wr.header = h
    wr.header_length = WIRE_HEADER


cdef inline uint64_t wanted(const op_t *op) noexcept nogil:
    return op.total if op.total < op.length else op.length


cdef void get_start(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    if wanted(op) == 0:
        done_start(e, p, op)
    elif op.flags & OP_PIPED or e.protocol == CHOICE_PIPELINE:
        pipe_receive(e, p, op)
    elif p.ready_head != NULL or get_serve(e, p, op) == FABRIC_AGAIN:
        ready_append(e, p, op)


cdef inline void heard(op_t *op, uint8_t flags) noexcept nogil:
    if flags & PACKET_PIPED:
        op.flags |= OP_PIPED
    if flags & PACKET_WAITING:
        op.waits |= WAITS_THERE


cdef bint rts_arrived(engine_t *e, peer_t *p, const rts_t *rts) noexcept nogil:
    cdef const header_t *h = &rts.header
    cdef op_t *op = posted_find(e, h.context, p.rank, h.tag)
    cdef message_t *m
    if op != NULL and op.kind == OP_RECV:
        posted_remove(e, op)
        if e.policy != NULL and e.policy.met != NULL:
            e.policy.met(e, p, op, h)
        op_matched(e, op, p.rank, h.tag, h.length, h.content)
        op.cookie = h.cookie
        op.remote = rts.address
        op.remote_key = rts.key
        heard(op, h.flags)
        get_start(e, p, op)
        return True
    m = message_new(e, 0)
    if m == NULL:
        e.counters.packets_refused += 1
        return False
    m.kind = MESSAGE_RTS
    m.flags = h.flags & (PACKET_PIPED | PACKET_WAITING)
    m.peer = p.rank
    m.context = h.context
    m.tag = h.tag
    m.length = h.length
    m.cookie = h.cookie
    m.content = <uint8_t> h.content
    m.remote = rts.address
    m.remote_key = rts.key
    if e.policy != NULL and e.policy.met != NULL:
        e.policy.met(e, p, NULL, h)
    message_keep(e, op, m)
    return True


cdef void get_deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    op_matched(e, op, m.peer, m.tag, m.length, m.content)
    op.cookie = m.cookie
    op.remote = m.remote
    op.remote_key = m.remote_key
    heard(op, m.flags)
    op.pairing |= PAIR_ACK
    message_release(e, m)
    get_start(e, &e.peers[op.source], op)


cdef bint rts_ack_arrived(engine_t *e, peer_t *p, const header_t *h) noexcept nogil:
    cdef op_t *op = op_lookup(e, h.cookie)
    if e.policy == NULL or e.policy.rts_flags == 0 or op == NULL or op.kind != OP_SEND \
            or op.state != OP_WAITING or op.peer != p.rank:
        return False
    e.policy.answered(e, p, op)
    return True


cdef void acked(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    # With its RTS-ACK before it, or DONE behind it, RTRs of later receives may follow.
    p.unacked -= 1
    op.pairing &= <uint8_t> ~PAIR_ACK
    if e.policy != NULL and e.policy.rts_flags:
        e.counters.rts_acks_sent += 1
        e.counters.extra_packets += 1
        e.counters.extra_bytes += WIRE_HEADER


cdef int get_serve(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef header_t h
    cdef header_t ack
    cdef work_request wr[3]
    cdef work_request *read = wr
    cdef uint64_t piece = wanted(op) - op.moved
    cdef int status
    if p.state != PEER_UP:
        if p.state == PEER_NEW:
            e.call_needed = 1
            return FABRIC_AGAIN
        op_complete(e, op, OP_PEER_LOST)
        return FABRIC_LOST
    if not op.flags & OP_REGISTERED or op.local_fabric != p.fabric:
        if not e.in_call:
            e.call_needed = 1
            return FABRIC_AGAIN
        lanes_keep(e, p)
        if receive_piped(e, p, op, wanted(op)):
            pipe_receive(e, p, op)
            return FABRIC_LOST
        if op_register(e, op, p.rank, ACCESS_LOCAL) != 0:
            if e.protocol != CHOICE_GET:
                pipe_receive(e, p, op)
                return FABRIC_LOST
            # The sender must not wait for ever because this side has no memory.
            op.flags |= OP_REFUSED
            op.error = OP_NOT_REGISTERED
            op.moved = 0
            done_start(e, p, op)
            return FABRIC_LOST
    memset(wr, 0, sizeof(wr))
    if op.pairing & PAIR_ACK and e.policy != NULL and e.policy.rts_flags:
        header_fill(p, &ack, PACKET_RTS_ACK, op.context, op.source_tag, 0, op.cookie)
        packet_request(read, &ack, 0)
        read += 1
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
        packet_request(read + 1, &h, WR_FENCE)
    piece = read.length
    status = p.fabric.ops.post(p.fabric, p.rank, wr,
                               <int> (read - wr) + (2 if read[1].opcode == WR_SEND else 1))
    if status == FABRIC_OK:
        if op.pairing & PAIR_ACK:
            acked(e, p, op)
        op.moved += piece
        op.state = OP_READING
        e.counters.reads += 1
        e.moving += 1
    elif status != FABRIC_AGAIN:
        op_complete(e, op, OP_PEER_LOST)
    return status


cdef void get_ended(engine_t *e, const completion *c) noexcept nogil:
    cdef op_t *op = op_lookup(e, c.id)
    cdef peer_t *p
    if op == NULL or op.kind != OP_RECV or op.state != OP_READING:
        return
    e.moving -= 1
    p = &e.peers[op.source]
    if c.status == FABRIC_OK:
        if op.moved < wanted(op):
            get_start(e, p, op)
        else:
            op_complete(e, op, op_fit(op))
    elif c.status == FABRIC_LOST:
        op_complete(e, op, OP_PEER_LOST)
    else:
        op.flags |= OP_REFUSED
        op.error = OP_INVALID
        done_start(e, p, op)
