# cython: language_level=3
"""One bounded, non-blocking turn of progress.

Invariants:

S1  (R1) ``step`` does at most POLL_BATCH packets per fabric and SERVE_LIMIT
    posts per waiting peer; it never allocates, blocks or calls the system
    except through the fabric's step operations.
S2  Packets of a peer are handled in their order.  When one must stay with the
    fabric, all later ones of that peer stay too.
S3  (R8) A packet is copied out of fabric memory before it is checked, and
    checked before it is used.  A violation breaks that peer and nobody else.
S4  (R4) Announcements of a peer carry consecutive sequence numbers.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.engine.lanes cimport LANE_ID
from pyrdv.engine.matching cimport unanswered_reserve, unexpected_reserve
from pyrdv.engine.op cimport op_complete, op_cookie, pools_reserve
from pyrdv.engine.peer cimport (
    credit_serve, credit_take, eager_affordable, freed_take, peer_activate, peer_connect, queue_pop,
    ready_pop)
from pyrdv.engine.protocols.done cimport done_arrived, done_serve
from pyrdv.engine.protocols.eager cimport eager_arrived, eager_post
from pyrdv.engine.protocols.finish cimport end_operations, finish_act, finish_arrived
from pyrdv.engine.protocols.pipe_in cimport chunk_arrived
from pyrdv.engine.protocols.pipe_out cimport (
    grant_arrived, pipe_refuse, pipe_written, taken_arrived)
from pyrdv.engine.protocols.placed cimport (
    place_post, placed_arrived, stand_act, stand_arrived, stand_serve)
from pyrdv.engine.protocols.rendezvous_get cimport (
    get_ended, get_serve, rts_ack_arrived, rts_arrived, rts_post)
from pyrdv.engine.protocols.rendezvous_put cimport (
    fin_arrived, offer_for, put_ended, put_serve, revoke_act, revoke_arrived, revoke_serve,
    revoked_arrived, rtr_arrived, start_arrived, start_post)
from pyrdv.engine.protocols.select cimport PROTOCOL_EAGER, choose, place_missed, prepare
from pyrdv.engine.protocols.superpipeline cimport pipe_turn
from pyrdv.engine.speculation.adaptation cimport advice_heard
from pyrdv.engine.state cimport (
    MESSAGES_LOW, OFFERS_LOW, OP_DONE_ONLY, OP_LACKING, OP_NOT_REGISTERED, OP_PEER_LOST, OP_PIPED,
    OP_SEND, OP_SYNC, OP_WAITING, PEER_CLOSED, PEER_LOST, PEER_NEW, PEER_UP, POLL_BATCH,
    REVOKE_ANSWERED, SERVE_LIMIT, engine_t, offer_t, op_t, peer_t)
from pyrdv.engine.wire cimport (
    CONTENT_OBJECT, PACKET_ADVICE, PACKET_CHECKED, PACKET_CHUNK, PACKET_CREDIT, PACKET_DONE,
    PACKET_EAGER, PACKET_FIN, PACKET_FINISH, PACKET_GRANT, PACKET_PIPED, PACKET_PLACED,
    PACKET_REFUSED, PACKET_REVOKE, PACKET_REVOKED, PACKET_RTR, PACKET_RTS, PACKET_RTS_ACK,
    PACKET_STAND, PACKET_START, PACKET_SYNC, PACKET_TAKEN, PACKET_WAITING, WIRE_GRANT, WIRE_HEADER,
    WIRE_RTR, WIRE_RTS, grant_t, header_t, rtr_t, rts_t)
from pyrdv.fabrics.contract cimport (
    EVENT_CLOSED, EVENT_LOST, EVENT_PACKET, EVENT_READ, EVENT_WRITE, FABRIC_AGAIN, FABRIC_LOST,
    FABRIC_OK, completion, fabric_t)


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)
    void note8(uint8_t *where, uint8_t value)

cdef extern from "ticks.h" nogil:
    uint64_t ticks_now()


# Wire layouts are pinned (docs/wire.md); enforced where the packets are parsed.
if sizeof(header_t) != WIRE_HEADER or sizeof(rts_t) != WIRE_RTS or sizeof(rtr_t) != WIRE_RTR \
        or sizeof(grant_t) != WIRE_GRANT:
    raise ImportError(f"wire layout: header {sizeof(header_t)}, RTS {sizeof(rts_t)}, "
                      f"RTR {sizeof(rtr_t)}, GRANT {sizeof(grant_t)} bytes")


cdef enum:
    IDLE_MASK = 1023            # turns without an event between two looks for connections
    BUSY_MASK = 255             # the same for turns with events
    RETRY_US = 1000             # between two tries of a connection that the system refuses
    TURN_MOVES = 32             # further steps of one turn while READs or WRITEs need polls


cdef int announce(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef offer_t *offer
    cdef int status
    if p.state != PEER_UP:
        if p.state == PEER_NEW:
            e.call_needed = 1
            return FABRIC_AGAIN
        op_complete(e, op, OP_PEER_LOST)
        return FABRIC_LOST
    if choose(e, p, op.length) == PROTOCOL_EAGER:
        status = eager_post(e, p, op.context, op.tag, op.buffer, op.length,
                            op_cookie(op) if op.flags & OP_SYNC else 0, op.content)
        if status == FABRIC_OK:
            if op.flags & OP_SYNC:
                op.state = OP_WAITING
            else:
                op_complete(e, op, 0)
    elif p.standing[0].op == op:
        status = place_post(e, p, op)
    else:
        status = prepare(e, p, op)
        if status == FABRIC_AGAIN:
            return status
        if status != FABRIC_OK:
            op_complete(e, op, OP_NOT_REGISTERED)
            return FABRIC_LOST
        offer = offer_for(e, p, op)
        status = rts_post(e, p, op) if offer == NULL else start_post(e, p, op, offer)
    if status != FABRIC_OK and status != FABRIC_AGAIN:
        op_complete(e, op, OP_PEER_LOST)
    return status


cdef inline void violation(engine_t *e, peer_t *p) noexcept nogil:
    p.broken = 1
    e.call_needed = 1
    e.counters.protocol_errors += 1


cdef bint well_formed(const engine_t *e, const header_t *h, uint32_t length) noexcept nogil:
    """Checks of the packet alone: lengths, flags, contents (docs/wire.md, section 7)."""
    if h.content and (h.content > CONTENT_OBJECT or h.kind not in (
            PACKET_EAGER, PACKET_PLACED, PACKET_RTS, PACKET_START)):
        return False
    if h.kind == PACKET_EAGER or h.kind == PACKET_PLACED:
        return (length - WIRE_HEADER == (h.length if h.kind == PACKET_EAGER else 0)
                and not h.flags & ~(PACKET_SYNC | PACKET_ADVICE))
    if h.kind == PACKET_RTS:
        return length == WIRE_RTS and not h.flags & ~(
            PACKET_ADVICE | PACKET_PIPED | PACKET_WAITING
            | (e.policy.rts_flags if e.policy != NULL else 0))
    if h.kind == PACKET_START:
        return length == WIRE_HEADER and not h.flags & ~PACKET_ADVICE
    if h.kind == PACKET_RTR:
        return length == WIRE_RTR and not h.flags
    if h.kind == PACKET_STAND:
        return length == WIRE_RTS and not h.flags
    if h.kind == PACKET_GRANT:
        return length == WIRE_GRANT and not h.flags & ~PACKET_CHECKED
    if h.kind == PACKET_DONE:
        return length == WIRE_HEADER and not h.flags & ~(PACKET_REFUSED | PACKET_WAITING)
    if h.kind == PACKET_FIN or h.kind == PACKET_CHUNK:
        return length == WIRE_HEADER and not h.flags & ~PACKET_REFUSED
    return length == WIRE_HEADER and not h.flags


cdef bint announced(peer_t *p, const header_t *h) noexcept nogil:
    """Checks that every announcement passes (S3, S4); none follows a FINISH."""
    if p.finished and p.state != PEER_CLOSED and p.state != PEER_LOST:
        return False
    return h.tag >= 0 and h.sequence == p.recv_sequence


cdef inline void handled(engine_t *e, peer_t *p, const header_t *h) noexcept nogil:
    # An announcement was taken.
    p.recv_sequence += 1
    if h.flags & PACKET_ADVICE:
        advice_heard(e, p, h)


cdef bint never_refused(engine_t *e, peer_t *p, const header_t *h,
                        const void *data) noexcept nogil:
    """Handle a packet of a kind that is always taken; whether it is legal."""
    cdef rtr_t rtr
    cdef grant_t grant
    if h.kind == PACKET_CREDIT:
        return True
    if h.kind == PACKET_CHUNK:
        return chunk_arrived(e, p, h)
    if h.kind == PACKET_TAKEN:
        return taken_arrived(e, p, h)
    if h.kind == PACKET_GRANT:
        grant.header = h[0]
        memcpy(<char *> &grant + WIRE_HEADER, <const char *> data + WIRE_HEADER,
               WIRE_GRANT - WIRE_HEADER)
        return grant_arrived(e, p, &grant)
    if h.kind == PACKET_RTR:
        rtr.header = h[0]
        memcpy(<char *> &rtr + WIRE_HEADER, <const char *> data + WIRE_HEADER,
               WIRE_RTR - WIRE_HEADER)
        return rtr_arrived(e, p, &rtr)
    if h.kind == PACKET_START:
        if not announced(p, h) or not start_arrived(e, p, h):
            return False
        handled(e, p, h)
        return True
    if h.kind == PACKET_FIN:
        return fin_arrived(e, p, h)
    if h.kind == PACKET_RTS_ACK:
        return rts_ack_arrived(e, p, h)
    if h.kind == PACKET_REVOKE:
        return revoke_arrived(e, p)
    if h.kind == PACKET_REVOKED:
        return revoked_arrived(e, p)
    if h.kind == PACKET_FINISH:
        finish_arrived(e, p)
        return True
    return False


cdef bint packet(engine_t *e, peer_t *p, const void *data, uint32_t length) noexcept nogil:
    """Handle one packet; False: it stays with the fabric."""
    cdef rts_t r
    cdef header_t *h = &r.header
    cdef bint legal = False
    cdef int taken
    if p.broken:
        return True
    if length < WIRE_HEADER:
        violation(e, p)
        return True
    memcpy(h, data, WIRE_HEADER)
    if not well_formed(e, h, length) or not credit_take(p, h.credit) \
            or not freed_take(p, h.freed):
        legal = False
    elif h.kind == PACKET_EAGER:
        if announced(p, h) and eager_affordable(e, p, h.length):
            if not eager_arrived(e, p, h, <const char *> data + WIRE_HEADER):
                return False
            handled(e, p, h)
            legal = True
    elif h.kind == PACKET_DONE:
        legal = done_arrived(e, p, h)
    elif h.kind == PACKET_RTS:
        if announced(p, h):
            memcpy(<char *> &r + WIRE_HEADER, <const char *> data + WIRE_HEADER,
                   WIRE_RTS - WIRE_HEADER)
            if not rts_arrived(e, p, &r):
                return False
            handled(e, p, h)
            place_missed(e, p, h.length)
            legal = True
    elif h.kind == PACKET_PLACED:
        taken = placed_arrived(e, p, h) if announced(p, h) else -1
        if taken == 0:
            return False
        if taken > 0:
            handled(e, p, h)
        legal = taken > 0
    elif h.kind == PACKET_STAND:
        memcpy(<char *> &r + WIRE_HEADER, <const char *> data + WIRE_HEADER,
               WIRE_RTS - WIRE_HEADER)
        legal = stand_arrived(e, p, &r)
    else:
        legal = never_refused(e, p, h, data)
    if not legal:
        violation(e, p)
    return True


cdef int take_batch(engine_t *e, fabric_t *fabric, int count) noexcept nogil:
    cdef int i
    cdef int happened = 0
    cdef int run = 0
    cdef uint32_t run_peer = 0
    cdef completion *c
    cdef peer_t *p
    for i in range(count):
        c = &e.batch[i]
        p = &e.peers[c.peer]
        if c.kind == EVENT_PACKET:
            if p.refused:
                continue
            if not packet(e, p, c.data, c.length):
                p.refused = 1
                continue
            if run and run_peer != c.peer:
                fabric.ops.release(fabric, run_peer, run)
                run = 0
            run_peer = c.peer
            run += 1
        elif c.kind == EVENT_READ:
            get_ended(e, c)
        elif c.kind == EVENT_WRITE:
            if c.id & LANE_ID:
                if not pipe_written(e, c) and not p.broken and not p.gone:
                    violation(e, p)
            else:
                put_ended(e, c)
        elif c.kind == EVENT_LOST or c.kind == EVENT_CLOSED:
            p.gone = c.kind
            e.call_needed = 1
        happened += 1
    if run:
        fabric.ops.release(fabric, run_peer, run)
    if happened != count:
        for i in range(count):
            e.peers[e.batch[i].peer].refused = 0
    return happened


cdef inline int serve_transfer(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    if op.kind != OP_SEND:
        return get_serve(e, p, op)
    return pipe_refuse(e, p, op) if op.flags & OP_PIPED else put_serve(e, p, op)


cdef int serve_peer(engine_t *e, peer_t *p) noexcept nogil:
    """Post what waits for `p`: transfers and their ends first, for they free others."""
    cdef int posts = 0
    cdef op_t *op
    cdef int status
    while p.ready_head != NULL and posts < SERVE_LIMIT:
        op = p.ready_head
        if op.flags & OP_DONE_ONLY:
            status = done_serve(e, p, op)
        else:
            # get_serve may turn the op into a DONE-only one and queue it again.
            ready_pop(p)
            status = serve_transfer(e, p, op)
            if status == FABRIC_AGAIN:
                op.next = p.ready_head
                p.ready_head = op
                if p.ready_tail == NULL:
                    p.ready_tail = op
                break
            posts += 1
            continue
        if status == FABRIC_AGAIN:
            break
        ready_pop(p)
        posts += 1
    while p.queue_head != NULL and posts < SERVE_LIMIT:
        op = p.queue_head
        if announce(e, p, op) == FABRIC_AGAIN:
            break
        queue_pop(p)
        posts += 1
    revoke_serve(e, p)
    stand_serve(e, p)
    credit_serve(e, p)
    return posts


cdef int serve(engine_t *e) noexcept nogil:
    cdef peer_t *p = e.active
    cdef peer_t *after
    cdef int posts = 0
    e.active = NULL
    while p != NULL:
        after = p.next_active
        p.active = 0
        posts += serve_peer(e, p)
        if p.ready_head != NULL or p.queue_head != NULL:
            peer_activate(e, p)
        p = after
    return posts


cdef int step(engine_t *e) noexcept nogil:
    cdef int i
    cdef int n
    cdef int happened = 0
    for i in range(e.fabric_count):
        n = e.fabrics[i].ops.poll(e.fabrics[i], e.batch, POLL_BATCH)
        if n > 0:
            happened += take_batch(e, e.fabrics[i], n)
    if e.active != NULL:
        happened += serve(e)
    if e.lanes_used != NULL or e.laneless != NULL:
        happened += pipe_turn(e)
    return happened


cdef void end_peer(engine_t *e, peer_t *p) noexcept nogil:
    note8(&p.state, PEER_LOST if p.broken or p.gone == EVENT_LOST else PEER_CLOSED)
    adjust32(&e.peers_lost, p.state == PEER_LOST)     # partner: engine_deaths
    if not p.finished:
        note8(&p.finished, 2)
        adjust32(&e.peers_left, -1)
    if p.broken:
        p.fabric.ops.disconnect(p.fabric, p.rank)
    end_operations(e, p, True)


cdef int connect_again(engine_t *e, peer_t *p) noexcept nogil:
    """Something waits for the connection to `p`."""
    cdef int status = OP_LACKING
    # A fabric that lacks nothing any more must not wait: it may have got it by itself.
    cdef bint due = not p.fabric.lacking or ticks_now() >= e.retry_at
    if due:
        status = peer_connect(e, p)
    if due and status == OP_LACKING:
        e.retry_at = ticks_now() + RETRY_US * e.ticks.per_us
    if status == OP_PEER_LOST:
        p.gone = EVENT_LOST
        end_peer(e, p)
        return 1
    if p.state == PEER_UP:
        return 1
    e.call_needed = 1
    return 0


cdef int call_work(engine_t *e) noexcept nogil:
    cdef uint32_t rank
    cdef peer_t *p
    cdef int happened = 0
    e.call_needed = 0
    for rank in range(e.size):
        p = &e.peers[rank]
        stand_act(e, p)
        if p.broken or p.gone:
            if p.state != PEER_LOST and p.state != PEER_CLOSED:
                end_peer(e, p)
                happened += 1
        elif p.finished == 1:
            finish_act(e, p)
            happened += 1
        elif p.revoking == REVOKE_ANSWERED:
            revoke_act(e, p)
            happened += 1
        elif p.state == PEER_NEW and (p.active or p.queue_head != NULL or p.ready_head != NULL):
            happened += connect_again(e, p)
    return happened


cdef int maintain(engine_t *e) noexcept nogil:
    cdef int i
    cdef int happened = 0
    for i in range(e.fabric_count):
        happened += e.fabrics[i].ops.maintain(e.fabrics[i])
    return happened


cdef int keep_moving(engine_t *e) noexcept nogil:
    # A call that comes rarely must not move one chunk each time.
    cdef int happened = 0
    cdef int more = 0
    while (e.moving and e.polled or e.lane_work) and more < TURN_MOVES:
        happened += step(e)
        more += 1
    return happened


cdef int turn(engine_t *e) noexcept nogil:
    cdef int happened
    e.in_call = 1
    if e.starved or e.message_free_count < MESSAGES_LOW \
            or e.policy != NULL and e.offer_free_count < OFFERS_LOW:
        pools_reserve(e)
    if e.unexpected.entries > e.unexpected.mask:
        unexpected_reserve(e)
    if e.unanswered.entries > e.unanswered.mask:
        unanswered_reserve(e)
    happened = step(e) + keep_moving(e)
    if e.call_needed:
        happened += call_work(e)
    if happened:
        adjust32(&e.busy_turns, 1)
        if not e.busy_turns & BUSY_MASK:
            maintain(e)
    else:
        e.idle_turns += 1
        if not e.idle_turns & IDLE_MASK:
            happened = maintain(e)
    e.in_call = 0
    return happened
