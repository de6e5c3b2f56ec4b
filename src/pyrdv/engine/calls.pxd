# cython: language_level=3
"""What the layers above may do with an engine.

The functions take the engine's lock themselves unless they say *locked*.
They run in a call, without the GIL, and never block.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.counters cimport counters_t
from pyrdv.engine.calling cimport debug_assert
from pyrdv.engine.sleeping cimport wake_sleepers
from pyrdv.engine.state cimport call_t, engine_t, message_t, op_t
from pyrdv.engine.trace cimport trace_due
from pyrdv.memory.mappings cimport owner_t


cdef extern from "lock.h" nogil:
    void engine_lock(uint32_t *lock)
    int engine_lock_try(uint32_t *lock)
    void engine_unlock(uint32_t *lock)
    void cpu_relax()

cdef extern from "order.h" nogil:
    uint32_t glance32(const uint32_t *where)


# Take the lock: what follows is a call, until `call_end` gives the lock back and wakes up those
# who sleep and have something to see.
cdef inline call_t *call_begin(engine_t *e) noexcept nogil:
    engine_lock(&e.lock)
    if e.debug:
        debug_assert(not e.in_call, "a call within a call")
    e.in_call = 1
    e.begun = e.epoch
    return <call_t *> e


cdef inline void call_end(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    wake_sleepers(call)
    e.in_call = 0
    trace_due(e)
    engine_unlock(&e.lock)


cdef enum:
    LARGE = 1 << 16             # bytes above which a receive makes an initial step, and it matters
                                # who waits

cdef enum send_how:             # added up
    SEND_SYNC = 1               # complete only when matched
    SEND_WAITS = 2              # the caller will wait for it at once
    SEND_OBJECT = 4             # it is a pickle
    SEND_PROMISED = 8           # the peer knows of it: an empty message goes if it cannot be sent
    SEND_PATIENT = 16           # it may wait until this process has what the connection lacks

cdef struct envelope_t:
    uint32_t source
    int32_t tag
    uint64_t length

cdef struct piece_t:            # one of several messages; as the arguments of engine_send
    void *data
    uint64_t length
    owner_t *owner
    uint32_t context
    int32_t tag
    int how
    op_t *op                    # set by the call

cdef struct held_t:
    uint64_t ops_in_use, regions_in_use, messages_in_use, posted, unexpected_now, pool_bytes

cdef struct counts_t:           # what was counted since the start, and what is held now
    counters_t counted
    held_t held

# Send.  0: complete, no operation was needed; 1: `out` is under way; negative:
# minus an op_error.  `data` stays with the library until completion.  `owner`, here and below:
# whose memory it is, or NULL; it lets the registration outlive the message.
cdef int engine_send(engine_t *e, uint32_t peer, uint32_t context, int32_t tag, void *data,
                     uint64_t length, int how, owner_t *owner, op_t **out) noexcept nogil
# A call will start `count` operations, sends to `peer` among them: what they lack shall be known
# before the first of them.  Their memory is taken then.  1: the connection is under way; 0: it is
# there, or the peer is gone, as its send will say; negative: minus an op_error.
cdef int engine_prepare(engine_t *e, uint32_t peer, uint32_t count) noexcept nogil
# Send `count` messages to one peer, in order, without any other between them.  The memory of all
# their operations is taken first, so the others follow if the first is sent.  0: each of them has
# its `op`, NULL where it is complete; negative: minus an op_error, and those sent have theirs.
cdef int engine_send_several(engine_t *e, uint32_t peer, piece_t *pieces,
                             uint32_t count) noexcept nogil
# Receive (kind OP_RECV) or posted matched probe (OP_MATCH).  0: `out` is the
# operation, perhaps complete already; else minus an op_error.  `waits`: the caller will, at once.
cdef int engine_recv(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                     void *room, uint64_t length, bint waits, owner_t *owner,
                     op_t **out) noexcept nogil
# Receive a message of which `peer` has told in another one (PROMISE_GIVEN).  It was probably
# announced already, so an RTR would be stale.  It comes for certain, unless the peer dies: the end
# of the world waits for it.
cdef int engine_recv_promised(engine_t *e, uint32_t peer, uint32_t context, int32_t tag,
                              void *room, uint64_t length, owner_t *owner,
                              op_t **out) noexcept nogil
# Receive matched message `m`, which is used up.
cdef int engine_recv_matched(engine_t *e, message_t *m, void *room, uint64_t length,
                             owner_t *owner, op_t **out) noexcept nogil
# One turn unless the message is here already, then look for it.  `taken` != NULL: take it
# out of the queue.  Returns whether one was found.
cdef bint engine_probe(engine_t *e, uint32_t peer, uint32_t context, int32_t tag,
                       envelope_t *envelope, message_t **taken) noexcept nogil
# Whether such a message is here already, unexpected: no turn, no system call.
cdef bint engine_holds(engine_t *e, uint32_t peer, uint32_t context, int32_t tag) noexcept nogil
# Take back a receive that was not matched or a send that was not announced.
# True: it completed as cancelled.  False: it was matched or announced; or an RTR must be revoked
# first, and it ends as cancelled or, if its message was on the way, with that.
cdef bint engine_cancel(engine_t *e, op_t *op) noexcept nogil
# Nobody wants the data of receive `op`: True if its buffer is not touched any more, and may be
# given back.  What is still to come is refused, or thrown away where its sender counts on it.
# False: it is not matched, or wait for its end, which needs no calls of its sender.
cdef bint engine_forsake(engine_t *e, op_t *op) noexcept nogil
# One turn; returns how many things happened.
cdef int engine_turn(engine_t *e) noexcept nogil
# One turn unless `op` is complete already (or was released since `generation`); is it now?
# `epoch` is what sleep_prepare wants when it is not.  `waits`: the caller does until it is.
cdef bint engine_test(engine_t *e, op_t *op, uint32_t generation, bint waits,
                      uint32_t *epoch) noexcept nogil
# A caller waits for `op` and others, from now on.
cdef void engine_wanted(engine_t *e, op_t *op, uint32_t generation) noexcept nogil
# The clock was read, and `op` is still waited for: then its post is recorded.
cdef void engine_awaits(engine_t *e, op_t *op, uint32_t generation) noexcept nogil
# If `op` is a large receive into which this processor may still copy, `room` and `length` become
# the unwritten part of its buffer; else they stay.  Returns True on the first use of that array.
cdef bint engine_room(engine_t *e, op_t *op, uint32_t generation, char **room,
                      uint64_t *length) noexcept nogil
# `op` is a receive from anybody and nobody is left who could send: it ends as lost.
cdef bint engine_hopeless(engine_t *e, op_t *op, uint32_t generation) noexcept nogil
# `op` is a receive from anybody that was not matched: it ends as lost, if so.
cdef bint engine_abandon(engine_t *e, op_t *op, uint32_t generation) noexcept nogil
# How many others may still send something.
cdef uint32_t engine_peers_left(engine_t *e) noexcept nogil
# Whether `peer` died.
cdef bint engine_peer_died(engine_t *e, uint32_t peer) noexcept nogil
# Whether nothing comes from `peer` any more.
cdef bint engine_peer_ended(engine_t *e, uint32_t peer) noexcept nogil
# Whether some peer died: a hint, without the lock.
cdef inline bint engine_deaths(const engine_t *e) noexcept nogil:
    return glance32(&e.peers_lost) != 0
cdef void engine_release(engine_t *e, op_t *op) noexcept nogil
# Whether `peer` ended in good order.
cdef bint engine_peer_finished(engine_t *e, uint32_t peer) noexcept nogil

# Whether `op` is not complete; no progress.
cdef bint engine_under_way(engine_t *e, const op_t *op, uint32_t generation) noexcept nogil

# Copy what an engine counts.  Not `locked`: in a forked child, whose lock another thread of the
# parent may have for ever.
cdef void engine_counts(engine_t *e, bint locked, counts_t *out) noexcept nogil
