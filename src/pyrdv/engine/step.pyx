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

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.choice.choose cimport CHOSEN_LATER, CHOSEN_NEVER, choose_now
from pyrdv.engine.ending cimport end_peer, finish_peer
from pyrdv.engine.event cimport TRACE_END
from pyrdv.engine.matching cimport unexpected_reserve
from pyrdv.engine.op cimport op_complete, op_lookup
from pyrdv.engine.peer cimport (
    credit_take, freed_take, peer_activate, peer_connect, queue_pop, ready_again, ready_pop)
from pyrdv.engine.pools cimport pools_reserve
from pyrdv.engine.protocols.contract cimport (
    OWN_ID, SERVED, SERVED_AGAIN, VERDICT_ILLEGAL, VERDICT_KEPT, VERDICT_TAKEN, kind_t)
from pyrdv.engine.protocols.table cimport KIND_NUMBERS, protocol_table, table_t
from pyrdv.engine.schedule.schedule cimport schedules_step
from pyrdv.engine.state cimport (
    MESSAGES_LOW, OFFERS_LOW, OP_DONE_ONLY, OP_INVALID, OP_LACKING, OP_NOT_REGISTERED, OP_PEER_LOST,
    PEER_CLOSED, PEER_LOST, PEER_NEW, PEER_UP, POLL_BATCH, PROTOCOL_DONE, SERVE_LIMIT, call_t,
    engine_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_op
from pyrdv.engine.wire cimport (
    CONTENT_OBJECT, PACKET_ADVICE, WIRE_GRANT, WIRE_HEADER, WIRE_RTR, WIRE_RTS, grant_t, header_t,
    rtr_t, rts_t)
from pyrdv.fabrics.contract cimport (
    EVENT_CLOSED, EVENT_LOST, EVENT_PACKET, EVENT_READ, EVENT_WRITE, FABRIC_AGAIN, FABRIC_OK,
    completion, fabric_t)


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


cdef const table_t *TABLE = protocol_table()

cdef enum:
    IDLE_MASK = 1023            # turns without an event between two looks for connections
    BUSY_MASK = 255             # the same for turns with events
    CALM_US = 500               # and at least this apart, while nobody connects or leaves
    RETRY_US = 1000             # between two tries of a connection that the system refuses
    TURN_MOVES = 32             # further steps of one turn while READs or WRITEs need polls


cdef int announce(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int status
    if p.state != PEER_UP:
        if p.state == PEER_NEW:
            peer_call(e, p)
            return SERVED_AGAIN
        op_complete(e, op, OP_PEER_LOST)
        return SERVED
    status = choose_now(e, p, op)
    if status == CHOSEN_LATER:
        return SERVED_AGAIN
    if status == CHOSEN_NEVER:
        op_complete(e, op, OP_NOT_REGISTERED)
        return SERVED
    status = TABLE.by_code[op.protocol].start(e, p, op)
    if status == FABRIC_AGAIN:
        return SERVED_AGAIN
    if status != FABRIC_OK:
        op_complete(e, op, OP_PEER_LOST)
    return SERVED


cdef inline void violation(engine_t *e, peer_t *p) noexcept nogil:
    p.broken = 1
    peer_call(e, p)
    e.counters.protocol_errors += 1


cdef const kind_t *well_formed(const header_t *h, uint32_t length) noexcept nogil:
    """Checks of the packet alone: length, flags, contents (docs/wire.md, section 7); or NULL."""
    cdef const kind_t *kind
    if h.kind >= KIND_NUMBERS:
        return NULL
    kind = TABLE.kinds[h.kind]
    if kind == NULL or length < kind.length or h.flags & ~kind.flags \
            or length - kind.length != (h.length if kind.carries else 0) \
            or h.content and (not kind.announces or h.content > CONTENT_OBJECT):
        return NULL
    return kind


cdef bint announced(const peer_t *p, const header_t *h) noexcept nogil:
    """Checks that every announcement passes (S3, S4); none follows a FINISH."""
    if p.finished and p.state != PEER_CLOSED and p.state != PEER_LOST:
        return False
    return h.tag >= 0 and h.sequence == p.recv_sequence


cdef bint packet(engine_t *e, peer_t *p, const void *data, uint32_t length) noexcept nogil:
    """Handle one packet; False: it stays with the fabric."""
    cdef rtr_t copy             # no packet is longer, data behind it apart
    cdef header_t *h = &copy.header
    cdef const kind_t *kind = NULL
    cdef int verdict = VERDICT_ILLEGAL
    if p.broken:
        return True
    if length >= WIRE_HEADER:
        memcpy(h, data, WIRE_HEADER)
        kind = well_formed(h, length)
    if kind != NULL and credit_take(p, h.credit) and freed_take(p, h.freed) \
            and (not kind.announces or announced(p, h)):
        memcpy(<char *> h + WIRE_HEADER, <const char *> data + WIRE_HEADER,
               kind.length - WIRE_HEADER)
        verdict = kind.arrived(e, p, h, <const char *> data + kind.length)
    if verdict == VERDICT_ILLEGAL:
        violation(e, p)
    elif verdict == VERDICT_TAKEN and kind.announces:
        p.recv_sequence += 1
        if h.flags & PACKET_ADVICE and e.policy.heard != NULL:
            e.policy.heard(e, p, h)
    elif verdict == VERDICT_TAKEN:
        p.spoke = 1
    return verdict != VERDICT_KEPT


cdef void transfer_ended(engine_t *e, peer_t *p, const completion *c) noexcept nogil:
    cdef op_t *op
    if c.id & OWN_ID:
        if not TABLE.owner.own_ended(e, c) and not p.broken and not p.gone:
            violation(e, p)
        return
    op = op_lookup(e, c.id)
    if op != NULL and TABLE.by_code[op.protocol] != NULL \
            and TABLE.by_code[op.protocol].ended != NULL:
        trace_op(e, TRACE_END, op, op.moved, 0, 0 if c.status == FABRIC_OK else OP_INVALID)
        TABLE.by_code[op.protocol].ended(e, op, c)


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
        elif c.kind == EVENT_READ or c.kind == EVENT_WRITE:
            transfer_ended(e, p, c)
        elif c.kind == EVENT_LOST or c.kind == EVENT_CLOSED:
            p.gone = c.kind
            peer_call(e, p)
        happened += 1
    if run:
        fabric.ops.release(fabric, run_peer, run)
    if happened != count:
        for i in range(count):
            e.peers[e.batch[i].peer].refused = 0
    return happened


cdef int serve_peer(engine_t *e, peer_t *p) noexcept nogil:
    """Post what waits for `p`: transfers and their ends first, for they free others."""
    cdef int posts = 0
    cdef int i, code, status
    cdef op_t *op
    while p.ready_head != NULL and posts < SERVE_LIMIT:
        op = p.ready_head
        ready_pop(p)
        code = PROTOCOL_DONE if op.flags & OP_DONE_ONLY else op.protocol
        status = TABLE.by_code[code].serve(e, p, op)
        if status == SERVED_AGAIN:
            ready_again(p, op)
            break
        posts += 1
    while p.queue_head != NULL and posts < SERVE_LIMIT:
        if announce(e, p, p.queue_head) == SERVED_AGAIN:
            break
        queue_pop(p)
        posts += 1
    for i in range(TABLE.owing_count):
        TABLE.owing[i].owed(e, p)
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
    if e.pieces:
        for i in range(TABLE.moving_count):
            happened += TABLE.moving[i].move(e)
    if e.schedules != NULL:
        happened += schedules_step(e)
    if happened:
        e.stirred = e.unsettled = 1
    return happened


cdef int call_step(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int happened
    if not e.debug:
        return step(e)
    e.in_call = 0
    happened = step(e)
    e.in_call = 1
    if e.calling != NULL:
        happened += step(e)
    return happened


cdef int connect_again(call_t *call, peer_t *p) noexcept nogil:
    """Something waits for the connection to `p`."""
    cdef engine_t *e = &call.engine
    cdef int status = OP_LACKING
    # A fabric that lacks nothing any more must not wait: it may have got it by itself.
    cdef bint due = not p.fabric.lacking or ticks_now() >= e.retry_at
    if due:
        status = peer_connect(call, p)
    if due and status == OP_LACKING:
        e.retry_at = ticks_now() + RETRY_US * e.ticks.per_us
    if status == OP_PEER_LOST:
        p.gone = EVENT_LOST
        end_peer(call, p)
        return 1
    if p.state == PEER_UP:
        return 1
    peer_call(e, p)
    return 0


cdef int act(call_t *call, peer_t *p) noexcept nogil:
    cdef int happened = 0
    cdef int i
    if p.broken or p.gone:
        if p.state != PEER_LOST and p.state != PEER_CLOSED:
            end_peer(call, p)
            return 1
        return 0
    for i in range(TABLE.acting_count):
        happened += TABLE.acting[i].act(call, p)
    if p.finished == 1:
        finish_peer(call, p)
        happened += 1
    if p.state == PEER_NEW and (p.active or p.queue_head != NULL or p.ready_head != NULL):
        happened += connect_again(call, p)
    return happened


cdef int call_work(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef peer_t *p = e.calling
    cdef peer_t *after
    cdef int happened = 0
    e.calling = NULL
    while p != NULL:
        after = p.next_calling
        p.calling = 0
        happened += act(call, p)
        p = after
    return happened


cdef int maintain(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int i
    cdef int happened = 0
    e.stirred = 1
    for i in range(e.fabric_count):
        happened += e.fabrics[i].ops.maintain(e.fabrics[i])
    return happened


cdef int look_around(call_t *call) noexcept nogil:
    """`maintain` of what is due: a look costs system calls, which small messages would feel."""
    cdef engine_t *e = &call.engine
    cdef int i
    cdef int happened = 0
    cdef uint64_t now = ticks_now()
    cdef bint due = now >= e.calm_until
    if due:
        e.calm_until = now + CALM_US * e.ticks.per_us
    for i in range(e.fabric_count):
        if due or not e.fabrics[i].calm:
            happened += e.fabrics[i].ops.maintain(e.fabrics[i])
            e.stirred = 1
    return happened


cdef int keep_moving(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    # A call that comes rarely must not move one chunk each time.
    cdef int happened = 0
    cdef int more = 0
    while (e.moving and e.polled or e.pieces_due) and more < TURN_MOVES:
        happened += call_step(call)
        more += 1
    return happened


cdef void refill(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    if e.starved or e.message_free_count < MESSAGES_LOW \
            or e.policy.offers and e.offer_free_count < OFFERS_LOW:
        pools_reserve(call)
    if e.unexpected.entries > e.unexpected.mask:
        unexpected_reserve(call)


cdef int turn(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int happened
    refill(call)
    happened = call_step(call) + keep_moving(call)
    if e.calling != NULL:
        happened += call_work(call)
    if happened:
        adjust32(&e.busy_turns, 1)
        if not e.busy_turns & BUSY_MASK:
            look_around(call)
    else:
        e.idle_turns += 1
        if not e.idle_turns & IDLE_MASK:
            happened = look_around(call)
    if happened:
        e.stirred = 1
    e.unsettled = happened != 0
    return happened
