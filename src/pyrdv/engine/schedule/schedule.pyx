# cython: language_level=3
"""Executes schedules: rounds of messages, then of reductions and copies, in steps and in calls.

After T. Hoefler and A. Lumsdaine, "Optimizing non-blocking Collective Operations for InfiniBand":
the messages of a round start together, those of the next when all of them are complete, and a start
looks for what is there (test on init).  There only calls of the owner go on to the next round; here
whoever makes a step does.

Invariants:

L1  (R1) A round starts in a step, and that takes no more than a step may: its operations were made
    by the start of the schedule, with the names of their buffers' owners.  While steps by
    themselves are expected (`unattended`), so were registrations of large messages, and memory for
    small ones that come before their round.
L2  Messages of a round start when all messages and all work of the rounds before are complete:
    receives first, which name their sources, then sends.  Two messages between two ranks are in one
    order on both sides, so all of a schedule have one tag.
L3  What a step cannot do waits where that of any other operation waits: a send in the queue of its
    peer, for a connection, a registration or credit, and a call looks after the peer.  A large
    receive is offered to its sender if its round starts in a call, else it waits for the
    announcement.
L4  If a message fails while its peer lives, or an operation raises, the schedule goes on to its
    end, for other members count on its messages.  But it computes nothing any more, and the
    messages of its later rounds are empty and marked (CONTENT_OBJECT).  Who gets one has failed,
    too (OP_FAILED_THERE), and goes on likewise: so nobody completes with data that went wrong.
    What went wrong first is told.
L5  If a member is lost, or takes no part, or a message cannot come any more, no round begins; nor
    if one comes of another length than expected, and who sent it may have other rounds (`strict`).
    Posted receives and sends that are not announced are taken back.  The schedule is over when all
    receives have ended, so nothing is written into its memory afterwards (R3); or their buffers
    were offered to a peer that has said, after all that it sent, that it takes no part any more
    (`schedule_excuse`).  Announced sends go on by themselves.  Each member learns of a loss by
    itself or from another, and who takes no part tells each other member; so no schedule of the
    communicator waits for good.
L6  The memory of a schedule belongs to its builder.  It is in the engine's list from its start
    until it is over, and only then is it looked at.
L7  A step does at most STEP_BYTES of reductions and copies, and STEP_MOVES other things, for each
    schedule.  What is left keeps waiters from sleep, for something happened.
L8  A schedule is complete when `op` is, once: then all its operations are, but for sends by L5.
L9  Ranks whose vectors differ in length may cut them into other messages, of which some may be as
    long as what is expected.  So parts are marked, too, and never empty: a message with a mark and
    data is a part, and who expects none, or gets none, has failed as with a wrong length.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.engine.calling cimport call_running, peer_call
from pyrdv.engine.calls cimport call_begin, call_end, engine_lock, engine_unlock
from pyrdv.engine.choice.choose cimport CHOSEN, CHOSEN_LATER, choose_send
from pyrdv.engine.event cimport TRACE_CHOOSE
from pyrdv.engine.matching cimport (
    posted_add, posted_remove, unexpected_find, unexpected_remove)
from pyrdv.engine.op cimport op_complete, op_release
from pyrdv.engine.peer cimport eager_limit, queue_append, queue_remove
from pyrdv.engine.protocols.contract cimport SERVED_AGAIN
from pyrdv.engine.protocols.placed cimport place_drop
from pyrdv.engine.protocols.rendezvous_put cimport (
    predicted, revoke_needed, revoke_start, rtr_offer)
from pyrdv.engine.protocols.table cimport protocol_table, table_t
from pyrdv.engine.registering cimport op_disown
from pyrdv.engine.schedule.plan cimport (
    ACTION_CALL, ACTION_RECV, ACTION_REDUCE, ACTION_SEND, SCHEDULE_ENDS, SCHEDULE_MOVES,
    SCHEDULE_NEW, SCHEDULE_OPENS, SCHEDULE_OVER, SCHEDULE_WORKS, action_t, round_t, schedule_t)
from pyrdv.engine.schedule.reserving cimport schedule_reserve
from pyrdv.engine.state cimport (
    OP_CANCELLED, OP_COMPLETE, OP_ENDED, OP_FAILED_THERE, OP_FINALIZED, OP_NO_MEMORY, OP_PEER_LOST,
    OP_POSTED, OP_QUEUED, OP_RECV, OP_RESERVED, OP_SHORT, OP_TRUNCATED, PEER_LOST, PROTOCOL_NONE,
    call_t, engine_t, message_t, op_t, peer_t)
from pyrdv.engine.step cimport announce, call_step, keep_moving
from pyrdv.engine.trace cimport trace_op, trace_read
from pyrdv.engine.wire cimport CONTENT_OBJECT


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)


cdef const table_t *TABLE = protocol_table()

cdef enum:
    STEP_BYTES = 256 << 10
    STEP_MOVES = 64


# The list ------------------------------------------------------------------------

cdef void link(engine_t *e, schedule_t *s) noexcept nogil:
    s.before = NULL
    s.next = <schedule_t *> e.schedules
    if s.next != NULL:
        s.next.before = s
    e.schedules = s


cdef void unlink(engine_t *e, schedule_t *s) noexcept nogil:
    if s.before != NULL:
        s.before.next = s.next
    else:
        e.schedules = s.next
    if s.next != NULL:
        s.next.before = s.before


# The end -------------------------------------------------------------------------

cdef void over(engine_t *e, schedule_t *s) noexcept nogil:
    unlink(e, s)
    s.state = SCHEDULE_OVER
    s.op.error = s.error
    s.op.peer = s.op.source = s.culprit if s.error else e.rank
    s.op.total = s.total
    s.op.length = s.room
    s.op.state = OP_COMPLETE
    adjust32(&e.epoch, 1)


cdef void note(schedule_t *s, int error, uint32_t culprit) noexcept nogil:
    if s.error == 0:
        s.error = error
        s.culprit = culprit


cdef void withdraw(engine_t *e, schedule_t *s) noexcept nogil:
    """No round begins any more (L5); those of the present one that can are taken back."""
    cdef const round_t *present = &s.rounds[s.round]
    cdef uint32_t i
    cdef op_t *op
    if s.state == SCHEDULE_MOVES:
        for i in range(present.begin, present.middle):
            op = s.actions[i].op
            if op.state == OP_POSTED and revoke_needed(op):
                revoke_start(e, op)
                e.stirred = 1
            elif op.state == OP_POSTED:
                posted_remove(e, op)
                op_complete(e, op, OP_CANCELLED)
            elif op.state == OP_QUEUED and queue_remove(&e.peers[op.peer], op):
                place_drop(&e.peers[op.peer], op)
                op_complete(e, op, OP_CANCELLED)
    s.state = SCHEDULE_ENDS


cdef bint landed(const engine_t *e, const schedule_t *s) noexcept nogil:
    """Whether nothing can be written into its memory any more."""
    cdef const op_t *op
    cdef uint32_t i
    if s.round < s.round_count:
        for i in range(s.rounds[s.round].begin, s.rounds[s.round].middle):
            op = s.actions[i].op
            if op.kind == OP_RECV and op.state != OP_COMPLETE and op.state != OP_RESERVED \
                    and not (s.actions[i].excused and op.state == OP_POSTED):
                return False
    return True


cdef void judge(engine_t *e, schedule_t *s, const action_t *a) noexcept nogil:
    """The message of `a`, in the present round, is complete: how?"""
    cdef const op_t *op = a.op
    cdef bint marked = op.content == CONTENT_OBJECT
    cdef int error = op.error
    if error == 0 and op.kind == OP_RECV and marked and op.total == 0:
        error = OP_FAILED_THERE
    if error == 0 and op.kind == OP_RECV and (op.total != op.length or marked != a.part):
        error = OP_SHORT
    if error == 0 or s.state == SCHEDULE_ENDS:
        return
    if error == OP_CANCELLED and op.flags & OP_ENDED:
        error = OP_FINALIZED
    if s.error == 0:
        s.total = op.total
        s.room = op.length
    note(s, error, op.peer)
    if error == OP_PEER_LOST or error == OP_CANCELLED or error == OP_FINALIZED \
            or s.strict and (error == OP_SHORT or error == OP_TRUNCATED):
        withdraw(e, s)


cdef bint member(const schedule_t *s, uint32_t rank) noexcept nogil:
    cdef uint32_t i
    for i in range(s.member_count):
        if s.members[i] == rank:
            return True
    return False


cdef void alarm(engine_t *e, schedule_t *s, const peer_t *p) noexcept nogil:
    cdef uint32_t i
    cdef const op_t *op
    if s.state == SCHEDULE_ENDS:
        return
    if p.state == PEER_LOST and member(s, p.rank):
        note(s, OP_PEER_LOST, p.rank)
        withdraw(e, s)
    elif s.state == SCHEDULE_MOVES:
        # Another one before it may be waited for.
        for i in range(s.at, s.rounds[s.round].middle):
            op = s.actions[i].op
            if op.state == OP_COMPLETE and op.error == OP_PEER_LOST:
                judge(e, s, &s.actions[i])


cdef void schedules_alarm(engine_t *e, const peer_t *p) noexcept nogil:
    cdef schedule_t *s = <schedule_t *> e.schedules
    while s != NULL:
        alarm(e, s, p)
        s = s.next


# A round -------------------------------------------------------------------------

cdef int choose(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    """For a large send, if that was not done ahead; LATER: in the queue of its peer (L3)."""
    cdef call_t *call = call_running(e)
    if op.protocol != PROTOCOL_NONE or op.length <= eager_limit(e, p.fabric):
        return CHOSEN
    if call == NULL:
        peer_call(e, p)
        return CHOSEN_LATER
    return choose_send(call, p, op)


cdef void send_start(engine_t *e, op_t *op, bint failed) noexcept nogil:
    cdef peer_t *p = &e.peers[op.peer]
    op.state = OP_QUEUED
    op.posted = trace_read(e)
    if failed:
        # Whatever was chosen for its data, there are none (L4).
        op_disown(e, op)
        op.content = CONTENT_OBJECT
        op.length = 0
        op.protocol = PROTOCOL_NONE
    if p.finished:
        op_complete(e, op, OP_PEER_LOST)
        return
    if choose(e, p, op) == CHOSEN and op.protocol != PROTOCOL_NONE:
        trace_op(e, TRACE_CHOOSE, op, op.length, 0, 0)
    if p.queue_head != NULL or announce(e, p, op) == SERVED_AGAIN:
        queue_append(e, p, op)


cdef bint offer(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    """Offer the buffer of large receive `op` to its sender, while a call runs (L3)."""
    cdef call_t *call = call_running(e)
    if not predicted(e, p, op.length):
        return False
    if call == NULL:
        peer_call(e, p)
        return False
    rtr_offer(call, op)
    return True


cdef void recv_start(engine_t *e, op_t *op) noexcept nogil:
    cdef peer_t *p = &e.peers[op.peer]
    cdef message_t *m = NULL
    op.state = OP_POSTED
    op.posted = trace_read(e)
    e.counters.receives += 1
    if e.unexpected.entries:
        m = unexpected_find(e, op.context, op.peer, op.tag)
    if m != NULL:
        unexpected_remove(e, m)
        TABLE.by_code[m.protocol].deliver(e, op, m)
    elif p.finished:
        op_complete(e, op, OP_PEER_LOST)
    else:
        posted_add(e, op)
        offer(e, p, op)


cdef void round_start(engine_t *e, schedule_t *s) noexcept nogil:
    cdef const round_t *present = &s.rounds[s.round]
    cdef uint32_t i
    for i in range(present.begin, present.middle):
        if s.actions[i].kind == ACTION_RECV:
            recv_start(e, s.actions[i].op)
    for i in range(present.begin, present.middle):
        if s.actions[i].kind == ACTION_SEND:
            send_start(e, s.actions[i].op, s.error != 0)
    s.at = present.begin
    s.state = SCHEDULE_MOVES


cdef bint messages_done(engine_t *e, schedule_t *s) noexcept nogil:
    cdef uint32_t end = s.rounds[s.round].middle
    while s.at < end and s.actions[s.at].op.state == OP_COMPLETE:
        judge(e, s, &s.actions[s.at])
        if s.state == SCHEDULE_ENDS:
            return True
        s.at += 1
    if s.at < end:
        return False
    s.offset = 0
    s.state = SCHEDULE_WORKS
    return True


cdef bint work_done(engine_t *e, schedule_t *s, uint64_t *budget) noexcept nogil:
    """Reductions and copies of the present round, `budget` bytes at most; whether none is left."""
    cdef uint32_t end = s.rounds[s.round].end
    cdef const action_t *a
    cdef uint64_t piece
    while s.at < end and s.error == 0:
        a = &s.actions[s.at]
        if a.kind == ACTION_CALL:
            if not s.calling:
                s.calling = 1
                adjust32(&e.epoch, 1)   # those who wait look what there is to do
            return False
        piece = min(a.length - s.offset, budget[0])
        if a.kind == ACTION_REDUCE:
            piece -= piece % a.unit
            a.reduce(a.origin + s.offset, a.buffer + s.offset, piece // a.unit)
        else:
            memcpy(a.buffer + s.offset, a.origin + s.offset, piece)
        s.offset += piece
        budget[0] -= piece
        if s.offset < a.length:
            budget[0] = 0
            return False
        s.at += 1
        s.offset = 0
    return True


cdef int advance(engine_t *e, schedule_t *s) noexcept nogil:
    cdef uint64_t budget = STEP_BYTES
    cdef int moves = 0
    while moves < STEP_MOVES:
        if s.state == SCHEDULE_OPENS and s.round == s.round_count \
                or s.state == SCHEDULE_ENDS and landed(e, s):
            over(e, s)
            return moves + 1
        if s.state == SCHEDULE_OPENS:
            round_start(e, s)
        elif s.state == SCHEDULE_MOVES:
            if not messages_done(e, s):
                return moves
        elif s.state == SCHEDULE_WORKS:
            if not work_done(e, s, &budget):
                return moves + (budget == 0)
            s.round += 1
            s.state = SCHEDULE_OPENS
        else:
            return moves
        moves += 1
    return moves


cdef int schedules_step(engine_t *e) noexcept nogil:
    cdef schedule_t *s = <schedule_t *> e.schedules
    cdef schedule_t *after
    cdef int happened = 0
    while s != NULL:
        after = s.next
        happened += advance(e, s)
        s = after
    return happened


# The start -----------------------------------------------------------------------

cdef void begin(call_t *call, schedule_t *s) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef uint32_t i
    link(e, s)
    s.state = SCHEDULE_OPENS
    for i in range(s.member_count):
        if e.peers[s.members[i]].state == PEER_LOST:
            alarm(e, s, &e.peers[s.members[i]])
    advance(e, s)
    keep_moving(call)


cdef int schedule_start(engine_t *e, schedule_t *s) noexcept nogil:
    cdef call_t *call
    cdef bint well
    call = call_begin(e)
    well = schedule_reserve(call, s)
    if well:
        if e.initial_turn:
            call_step(call)
        begin(call, s)
        if e.unattended and e.progress != NULL and s.state != SCHEDULE_OVER:
            e.progress.posted(e.progress, s.op)
    call_end(call)
    return 0 if well else -OP_NO_MEMORY


# Python --------------------------------------------------------------------------

cdef long schedule_waits(engine_t *e, schedule_t *s) noexcept nogil:
    cdef long found = -1
    engine_lock(&e.lock)
    if s.state == SCHEDULE_WORKS and s.calling:
        found = s.at
    engine_unlock(&e.lock)
    return found


cdef void schedule_called(engine_t *e, schedule_t *s, int error) noexcept nogil:
    cdef call_t *call
    call = call_begin(e)
    if s.state == SCHEDULE_WORKS and s.calling:
        s.calling = 0
        s.at += 1
        if error:
            note(s, error, e.rank)
        advance(e, s)
        e.stirred = 1
    call_end(call)


cdef void schedule_end(engine_t *e, schedule_t *s, int error) noexcept nogil:
    cdef call_t *call
    call = call_begin(e)
    if s.state != SCHEDULE_NEW and s.state != SCHEDULE_OVER and s.state != SCHEDULE_ENDS:
        note(s, error, e.rank)
        withdraw(e, s)
        advance(e, s)
        keep_moving(call)
    call_end(call)


cdef void schedule_excuse(engine_t *e, schedule_t *s, uint32_t peer) noexcept nogil:
    cdef call_t *call
    cdef uint32_t i
    call = call_begin(e)
    if s.state == SCHEDULE_ENDS and s.round < s.round_count:
        for i in range(s.rounds[s.round].begin, s.rounds[s.round].middle):
            if s.actions[i].peer == peer:
                s.actions[i].excused = 1
        advance(e, s)
    call_end(call)


cdef uint32_t schedule_release(engine_t *e, schedule_t *s, op_t **left) noexcept nogil:
    cdef uint32_t i
    cdef uint32_t count = 0
    cdef op_t *op
    engine_lock(&e.lock)
    if s.state != SCHEDULE_NEW and s.state != SCHEDULE_OVER:
        unlink(e, s)
    for i in range(s.action_count):
        op = s.actions[i].op
        if op == NULL:
            continue
        if op.state == OP_RESERVED:
            op_disown(e, op)
            op_release(e, op)
        elif op.state == OP_COMPLETE:
            op_release(e, op)
        else:
            left[count] = op
            count += 1
    engine_unlock(&e.lock)
    return count
