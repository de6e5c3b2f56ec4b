# cython: language_level=3
"""The calls of the API on an engine: send, receive, probe, cancel, test."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.choice.choose cimport CHOSEN_NEVER, choose_eager, choose_send
from pyrdv.engine.choice.waiting cimport waiting_begins, waiting_unknown
from pyrdv.engine.event cimport TRACE_CHOOSE
from pyrdv.engine.looking cimport look_after, peer_unreachable
from pyrdv.engine.lost cimport peer_fails
from pyrdv.engine.matching cimport (
    posted_add, posted_remove, posted_reserve, unexpected_find, unexpected_remove)
from pyrdv.engine.op cimport message_hold, op_complete, op_new, op_release, ops_reserve
from pyrdv.engine.peer cimport peer_connect, queue_append, queue_remove
from pyrdv.engine.pools cimport message_release, messages_reserve
from pyrdv.engine.protocols.contract cimport SERVED_AGAIN, protocol_t
from pyrdv.engine.protocols.eager cimport eager_post
from pyrdv.engine.protocols.loopback cimport loop_send
from pyrdv.engine.protocols.placed cimport place_drop
from pyrdv.engine.protocols.rendezvous_put cimport (
    predicted, revoke_needed, revoke_start, rtr_offer)
from pyrdv.engine.protocols.table cimport protocol_table, table_t
from pyrdv.engine.protocols.lanes cimport passing
from pyrdv.engine.registering cimport op_disown, op_own
from pyrdv.engine.state cimport (
    ANY_PEER, OP_CANCELLED, OP_COMPLETE, OP_LACKING, OP_MATCH, OP_NOT_REGISTERED, OP_NO_MEMORY,
    OP_PEER_LOST, OP_PIPING, OP_POSTED, OP_QUEUED, OP_READING, OP_RECV, OP_REGISTERED, OP_SEND,
    OP_SYNC, OP_WAITING, OP_WRITING, PEER_CLOSED, PEER_LOST, PEER_NEW, PEER_SELF, PEER_UP,
    PROMISE_GIVEN, PROTOCOL_NONE, WAITS_HERE, call_t, engine_t, message_t, op_t, peer_t)
from pyrdv.engine.step cimport announce, call_step, keep_moving, maintain, refill, turn
from pyrdv.engine.trace cimport trace_op, trace_post, trace_read, trace_sent
from pyrdv.engine.wire cimport CONTENT_BUFFER, CONTENT_OBJECT
from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_OK
from pyrdv.memory.mappings cimport owner_t


cdef extern from "order.h" nogil:
    uint8_t glance8(const uint8_t *where)

cdef enum:
    ROOM_LEAST = 16 << 10       # bytes of a receive whose pages are worth making
    ROOM_MOST = 4 << 20         # and of it that are made


cdef const table_t *TABLE = protocol_table()


cdef void reserve(call_t *call, op_t *op) noexcept nogil:
    """Steps by themselves go on with `op`, which was posted: take what they will need (R1)."""
    cdef int i
    refill(call)
    for i in range(TABLE.reserving_count):
        TABLE.reserving[i].reserve(call, op)


cdef inline void posted(engine_t *e, op_t *op) noexcept nogil:
    # A call that does not wait ends, and `op` goes on (progress/contract, M1).
    if e.unattended and e.progress != NULL:
        e.progress.posted(e.progress, op)


cdef int send_queued(call_t *call, peer_t *p, uint32_t context, int32_t tag, void *data,
                     uint64_t length, int how, owner_t *owner, op_t **out) noexcept nogil:
    """The long way: by an operation."""
    cdef engine_t *e = &call.engine
    cdef op_t *op = op_new(call, OP_SEND, p.rank, context, tag, data, length)
    if op == NULL:
        return -OP_NO_MEMORY
    op.state = OP_QUEUED
    op.content = CONTENT_OBJECT if how & SEND_OBJECT else CONTENT_BUFFER
    op.posted = trace_read(e)
    op_own(op, owner)
    if how & SEND_SYNC:
        op.flags |= OP_SYNC
    if how & SEND_PROMISED:
        op.promised = PROMISE_GIVEN
    if how & SEND_WAITS:
        op.waits = WAITS_HERE
    elif length > LARGE:
        waiting_unknown(e, op)
    if choose_send(call, p, op) == CHOSEN_NEVER:
        op_complete(e, op, OP_NOT_REGISTERED)
        op_release(e, op)
        return -OP_NOT_REGISTERED
    if op.protocol != PROTOCOL_NONE:
        trace_op(e, TRACE_CHOOSE, op, length, 0, 0)
    if p.queue_head != NULL or announce(e, p, op) == SERVED_AGAIN:
        queue_append(e, p, op)
    if e.unattended:
        reserve(call, op)
    out[0] = op
    return 1


cdef int send_locked(call_t *call, uint32_t peer, uint32_t context, int32_t tag, void *data,
                     uint64_t length, int how, owner_t *owner, op_t **out) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int content = CONTENT_OBJECT if how & SEND_OBJECT else CONTENT_BUFFER
    cdef peer_t *p = &e.peers[peer]
    cdef int status
    if p.state == PEER_SELF:
        return loop_send(call, context, tag, data, length, how & SEND_SYNC, content, out)
    if p.recv_sequence == p.answered:
        look_after(call)
    # What answers was alive (the hot path of messages to and fro).
    p.answered = p.recv_sequence
    if e.initial_turn and predicted(e, p, length) \
            and (e.policy.hopes == NULL or e.policy.hopes(call, p, context, tag)):
        # The RTR may be here already: then the data moves from now on.
        call_step(call)
    if p.finished:
        return -peer_unreachable(call, p)
    if p.state != PEER_UP:
        status = peer_connect(call, p)
        if status != 0 and not (status == OP_LACKING and how & (SEND_PATIENT | SEND_PROMISED)):
            return -(status if status == OP_LACKING else peer_unreachable(call, p))
    # The short way: nothing waits before it, so it may be announced at once (P3).
    if p.state == PEER_UP and p.queue_head == NULL and not how & SEND_SYNC \
            and choose_eager(e, p, length):
        status = eager_post(e, p, context, tag, data, length, 0, content)
        if status == FABRIC_OK:
            trace_sent(e, peer, context, tag, length, p.send_sequence - 1)
            return 0
        if status != FABRIC_AGAIN:
            return -peer_fails(e, p)
    return send_queued(call, p, context, tag, data, length, how, owner, out)


cdef int engine_send(engine_t *e, uint32_t peer, uint32_t context, int32_t tag, void *data,
                     uint64_t length, int how, owner_t *owner, op_t **out) noexcept nogil:
    cdef call_t *call
    cdef int result
    call = call_begin(e)
    result = send_locked(call, peer, context, tag, data, length, how, owner, out)
    if result == 1 and out[0].state == OP_WRITING:
        # The receiver was first and may compute: where a processor must copy, it is this one.
        keep_moving(call)
    if result == 1 and not how & SEND_WAITS:
        posted(e, out[0])
    call_end(call)
    return result


cdef int engine_prepare(engine_t *e, uint32_t peer, uint32_t count) noexcept nogil:
    cdef call_t *call
    cdef peer_t *p = &e.peers[peer]
    cdef int result = 0
    call = call_begin(e)
    if p.state == PEER_NEW and not p.finished:
        result = peer_connect(call, p)
        result = -OP_LACKING if result == OP_LACKING else result == 0 and p.state == PEER_NEW
    if result >= 0 and not (ops_reserve(call, count) and (
            p.state != PEER_SELF or messages_reserve(call, count))):
        result = -OP_NO_MEMORY
    call_end(call)
    return result


cdef int engine_send_several(engine_t *e, uint32_t peer, piece_t *pieces,
                             uint32_t count) noexcept nogil:
    cdef int result = -OP_NO_MEMORY
    cdef call_t *call
    cdef uint32_t i
    cdef piece_t *piece
    call = call_begin(e)
    # No step makes an operation, so these remain free for the calls below.
    if ops_reserve(call, count) and (e.peers[peer].state != PEER_SELF
                                     or messages_reserve(call, count)):
        for i in range(count):
            piece = &pieces[i]
            result = send_locked(call, peer, piece.context, piece.tag, piece.data, piece.length,
                                 piece.how, piece.owner, &piece.op)
            if result < 0:
                break
            if result == 1 and piece.op.state == OP_WRITING:
                keep_moving(call)
            if result == 1 and not piece.how & SEND_WAITS:
                posted(e, piece.op)
    call_end(call)
    return min(result, 0)


cdef void deliver(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    """Give message `m`, which is in no queue any more, to receive `op`."""
    if op.kind == OP_MATCH:
        message_hold(e, op, m)
    else:
        TABLE.by_code[m.protocol].deliver(e, op, m)


cdef int recv_locked(call_t *call, int kind, uint32_t peer, uint32_t context, int32_t tag,
                     void *room, uint64_t length, bint waits, owner_t *owner,
                     op_t **out) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef message_t *m = NULL
    cdef op_t *op = op_new(call, kind, peer, context, tag, room, length)
    cdef peer_t *p
    if op == NULL:
        return -OP_NO_MEMORY
    out[0] = op
    e.counters.receives += 1
    op.state = OP_POSTED
    # Who waits looks at the clock soon, if the message is not here before (`engine_awaits`).
    op.posted = trace_read(e) if e.trace.exact or not waits else 0
    op_own(op, owner)
    if waits:
        op.waits = WAITS_HERE
    elif length > LARGE:
        waiting_unknown(e, op)
    if e.unexpected.entries:
        m = unexpected_find(e, context, peer, tag)
    if m != NULL:
        unexpected_remove(e, m)
        deliver(e, op, m)
        return 0
    if peer != ANY_PEER:
        p = &e.peers[peer]
        if p.finished:
            op_complete(e, op, OP_PEER_LOST)
            return 0
    posted_reserve(call)
    posted_add(e, op)
    return 0


cdef int recv_call(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                   void *room, uint64_t length, bint waits, owner_t *owner, bint promised,
                   op_t **out) noexcept nogil:
    cdef call_t *call
    cdef int result
    call = call_begin(e)
    result = recv_locked(call, kind, peer, context, tag, room, length, waits, owner, out)
    if result == 0 and promised:
        out[0].promised = PROMISE_GIVEN
    if result == 0 and out[0].state == OP_POSTED and (
            length > LARGE or peer != ANY_PEER and predicted(e, &e.peers[peer], length)):
        # The announcement may be here already: then the data moves from now on.
        if e.initial_turn:
            call_step(call)
        if not promised and out[0].state == OP_POSTED:
            rtr_offer(call, out[0])
    if e.unattended and result == 0 and not waits:
        reserve(call, out[0])
    if result == 0 and out[0].state == OP_READING:
        # The sender was first and may compute: as in `engine_send`.
        keep_moving(call)
    if result == 0 and not waits:
        posted(e, out[0])
    call_end(call)
    return result


cdef int engine_recv(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                     void *room, uint64_t length, bint waits, owner_t *owner,
                     op_t **out) noexcept nogil:
    return recv_call(e, kind, peer, context, tag, room, length, waits, owner, False, out)


cdef int engine_recv_promised(engine_t *e, uint32_t peer, uint32_t context, int32_t tag,
                              void *room, uint64_t length, owner_t *owner,
                              op_t **out) noexcept nogil:
    return recv_call(e, OP_RECV, peer, context, tag, room, length, False, owner, True, out)


cdef int engine_recv_matched(engine_t *e, message_t *m, void *room, uint64_t length,
                             owner_t *owner, op_t **out) noexcept nogil:
    cdef call_t *call
    cdef op_t *op
    call = call_begin(e)
    op = op_new(call, OP_RECV, m.peer, m.context, m.tag, room, length)
    if op != NULL:
        op.state = OP_POSTED
        op.posted = trace_read(e)
        op_own(op, owner)
        deliver(e, op, m)
        if e.unattended:
            reserve(call, op)
            posted(e, op)
        out[0] = op
    call_end(call)
    return 0 if op != NULL else -OP_NO_MEMORY


cdef bint engine_probe(engine_t *e, uint32_t peer, uint32_t context, int32_t tag,
                       envelope_t *envelope, message_t **taken) noexcept nogil:
    cdef call_t *call
    cdef message_t *m
    call = call_begin(e)
    m = unexpected_find(e, context, peer, tag)
    if m == NULL:
        # A rare poller must not need many polls to see a first contact.
        if turn(call) == 0 and maintain(call) != 0:
            turn(call)
        m = unexpected_find(e, context, peer, tag)
    if m != NULL:
        envelope.source = m.peer
        envelope.tag = m.tag
        envelope.length = m.length
        if taken != NULL:
            unexpected_remove(e, m)
            taken[0] = m
    call_end(call)
    return m != NULL


cdef bint engine_holds(engine_t *e, uint32_t peer, uint32_t context, int32_t tag) noexcept nogil:
    cdef bint held
    engine_lock(&e.lock)
    held = unexpected_find(e, context, peer, tag) != NULL
    engine_unlock(&e.lock)
    return held


cdef bint engine_cancel(engine_t *e, op_t *op) noexcept nogil:
    cdef call_t *call
    cdef bint done = False
    call = call_begin(e)
    if op.state == OP_POSTED and revoke_needed(op):
        revoke_start(e, op)
        e.stirred = 1
    elif op.state == OP_POSTED:
        posted_remove(e, op)
        done = True
    elif op.state == OP_QUEUED:
        done = queue_remove(&e.peers[op.peer], op)
        place_drop(&e.peers[op.peer], op)
    elif op.state == OP_WAITING and op.message != NULL and op.message.queued:
        # To this process itself, not received yet.
        unexpected_remove(e, op.message)
        message_release(e, op.message)
        done = True
    if done:
        op_complete(e, op, OP_CANCELLED)
    call_end(call)
    return done


cdef bint engine_forsake(engine_t *e, op_t *op) noexcept nogil:
    cdef const protocol_t *protocol
    cdef call_t *call
    cdef bint left = False
    call = call_begin(e)
    if op.kind == OP_RECV and op.buffer == &op.peek[0]:
        left = True             # only that is written
    elif op.kind == OP_RECV:
        protocol = TABLE.by_code[op.protocol]
        left = protocol != NULL and protocol.forsake != NULL and protocol.forsake(call, op)
        if left:
            op_disown(e, op)    # nor may its peer write there
            op.buffer = NULL
        e.stirred = 1           # what nobody wants may end at once
    call_end(call)
    return left


cdef int engine_turn(engine_t *e) noexcept nogil:
    cdef call_t *call
    cdef int happened
    call = call_begin(e)
    happened = turn(call)
    call_end(call)
    return happened


cdef bint engine_test(engine_t *e, op_t *op, uint32_t generation, bint waits,
                      uint32_t *epoch) noexcept nogil:
    cdef call_t *call
    cdef bint done
    call = call_begin(e)
    done = op.generation != generation or op.state == OP_COMPLETE
    if not done:
        if waits and not op.waits & WAITS_HERE:
            waiting_begins(e, op)
        if not waits:
            look_after(call)
        turn(call)
        epoch[0] = e.epoch
        done = op.generation != generation or op.state == OP_COMPLETE
    call_end(call)
    return done


cdef void engine_wanted(engine_t *e, op_t *op, uint32_t generation) noexcept nogil:
    engine_lock(&e.lock)
    if op.generation == generation and op.state != OP_COMPLETE and not op.waits & WAITS_HERE:
        waiting_begins(e, op)
    engine_unlock(&e.lock)


cdef void engine_awaits(engine_t *e, op_t *op, uint32_t generation) noexcept nogil:
    engine_lock(&e.lock)
    if op.generation == generation and op.state != OP_COMPLETE:
        trace_post(e, op)
    engine_unlock(&e.lock)


cdef bint engine_room(engine_t *e, op_t *op, uint32_t generation, char **room,
                      uint64_t *length) noexcept nogil:
    cdef uint64_t begin = 0
    cdef bint fresh = False
    engine_lock(&e.lock)
    if op.generation == generation and op.kind == OP_RECV and op.length >= ROOM_LEAST \
            and not op.flags & OP_REGISTERED \
            and (op.state == OP_POSTED or op.state == OP_PIPING):
        if op.state == OP_PIPING:
            begin = passing(op).lane.offset
        room[0] = op.buffer + begin
        length[0] = (op.length if op.state == OP_POSTED else min(op.total, op.length)) - begin
        # How much will come into a posted one is not known.
        length[0] = min(length[0], <uint64_t> ROOM_MOST)
        if op.owner != NULL:
            fresh = not op.owner.roomed
            op.owner.roomed = 1
    engine_unlock(&e.lock)
    return fresh


cdef bint engine_hopeless(engine_t *e, op_t *op, uint32_t generation) noexcept nogil:
    return engine_peers_left(e) == 0 and e.size > 1 and engine_abandon(e, op, generation)


cdef uint32_t engine_peers_left(engine_t *e) noexcept nogil:
    cdef uint32_t left
    engine_lock(&e.lock)
    left = e.peers_left
    engine_unlock(&e.lock)
    return left


cdef bint engine_peer_died(engine_t *e, uint32_t peer) noexcept nogil:
    cdef bint died
    engine_lock(&e.lock)
    died = e.peers[peer].state == PEER_LOST
    engine_unlock(&e.lock)
    return died


cdef bint engine_peer_ended(engine_t *e, uint32_t peer) noexcept nogil:
    cdef const peer_t *p = &e.peers[peer]
    cdef bint ended
    engine_lock(&e.lock)
    ended = p.finished == 2 or p.state == PEER_CLOSED or p.state == PEER_LOST
    engine_unlock(&e.lock)
    return ended


cdef bint engine_abandon(engine_t *e, op_t *op, uint32_t generation) noexcept nogil:
    cdef call_t *call
    cdef bint ended = False
    call = call_begin(e)
    if op.generation == generation and op.state == OP_POSTED and op.peer == ANY_PEER:
        posted_remove(e, op)
        op_complete(e, op, OP_PEER_LOST)
        ended = True
    call_end(call)
    return ended


cdef void engine_release(engine_t *e, op_t *op) noexcept nogil:
    engine_lock(&e.lock)
    op_release(e, op)
    engine_unlock(&e.lock)


cdef bint engine_peer_finished(engine_t *e, uint32_t peer) noexcept nogil:
    # Without the lock: the caller looks again, for both only ever grow.
    cdef int state = glance8(&e.peers[peer].state)
    return state == PEER_CLOSED or state != PEER_LOST and glance8(&e.peers[peer].finished)


cdef bint engine_under_way(engine_t *e, const op_t *op, uint32_t generation) noexcept nogil:
    cdef bint found
    engine_lock(&e.lock)
    found = op.generation == generation and op.state != OP_COMPLETE
    engine_unlock(&e.lock)
    return found


cdef void engine_counts(engine_t *e, bint locked, counts_t *out) noexcept nogil:
    if locked:
        engine_lock(&e.lock)
    out.counted = e.counters
    out.held.ops_in_use = e.ops_in_use
    out.held.regions_in_use = e.regions_in_use
    out.held.messages_in_use = e.messages_in_use
    out.held.posted = e.posted.entries
    out.held.unexpected_now = e.unexpected.entries // 4
    out.held.pool_bytes = e.slab_bytes
    if locked:
        engine_unlock(&e.lock)
