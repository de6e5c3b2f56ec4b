# cython: language_level=3
"""Which protocol a message takes, and why: the only place that decides.

Each side decides once per message.  The answer is `op.protocol`, `op.reason` and, where times were
compared, `op.cost` and `op.instead`; everything else reads those.

The sender.  Up to the smaller of the knob (or the fabric's own figure) and what one packet holds, a
message goes eager, while the receiver's unexpected memory is sure to have room (P1).  Above, it is
placed, up to what a standing buffer holds, where the peer has given some and copying costs less
than asking (`costs`).  All other messages are a rendezvous: written into an offered buffer, if the
receiver came first; else read by the receiver, unless the memory cannot be registered or copying
costs less: then the superpipeline moves the data.

The sender's decision falls when the send is posted, for then there is a call that can register
(R1).  Two facts may change until the announcement, and are looked at there (`choose_now`): the
credit for eager messages, and the receiver's offers.

The receiver of a rendezvous decides between READ and superpipeline, when its memory is to be
registered.

A READ goes on by itself, a superpipeline only in calls of both sides.  So a superpipeline is chosen
for its speed only where both ends wait (`waiting`): the receiver knows of its own caller, and RTS
tells of the sender's; the sender guesses by what DONE told of the receives before.
"""
from libc.stdint cimport uint8_t, uint64_t

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.choice.costs cimport fabric_index, figures_pick, figures_place
from pyrdv.engine.choice.waiting cimport waiting_here
from pyrdv.engine.event cimport TRACE_CHOOSE, TRACE_CREDIT
from pyrdv.engine.lanes cimport lane_idle, lane_reserve, lanes_keep
from pyrdv.engine.op cimport op_register, op_wanted
from pyrdv.engine.peer cimport eager_allowed, eager_limit
from pyrdv.engine.protocols.placed cimport place_able, place_fill, place_ready, stand_consider
from pyrdv.engine.state cimport (
    CHOICE_AUTO, CHOICE_GET, CHOICE_PIPELINE, OP_REGISTERED, PATIENT, PROMISE_EMPTY,
    PROMISE_NONE, PROTOCOL_EAGER, PROTOCOL_GET,
    PROTOCOL_NONE, PROTOCOL_PIPELINE, PROTOCOL_PLACED, PROTOCOL_PUT, REASON_ASKED, REASON_COST,
    REASON_CREDIT, REASON_HELD, REASON_NONE, REASON_OFFER, REASON_ONLY, REASON_PEER, REASON_REFUSED,
    REASON_SELF, REASON_SIZE, REASON_UNWAITED, WAITS_THERE, engine_t, offer_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_op
from pyrdv.fabrics.contract cimport ACCESS_LOCAL, ACCESS_REMOTE_READ, CAP_PINS
from pyrdv.memory.mappings cimport cache_holds, cache_used, cache_uses


cdef enum:
    USES = 1                    # of a registration: buffers that are good for new memory are given


cdef inline void decide(op_t *op, int protocol, int reason) noexcept nogil:
    op.protocol = <unsigned char> protocol
    op.reason = <unsigned char> reason


cdef inline void weigh(op_t *op, double cost, double instead) noexcept nogil:
    op.cost = <float> cost
    op.instead = <float> instead


# Both sides --------------------------------------------------------------------

cdef double uses_near(engine_t *e, peer_t *p, op_t *op, uint64_t length, int access) noexcept nogil:
    """Messages that a registration of this side would serve; 0: it is there."""
    cdef int i = fabric_index(e, p)
    if op.flags & OP_REGISTERED or cache_holds(e.cache, op.owner, i, op.buffer, length, access):
        return 0
    return cache_uses(e.cache, op.owner, i, access)


cdef double uses_far(engine_t *e, peer_t *p, double near) noexcept nogil:
    # The other side is probably as new to its memory; what it offers to writes is not kept.
    return near if e.cache.devices[fabric_index(e, p)].exposed & ACCESS_LOCAL == 0 else 1


cdef bint copying_pays(engine_t *e, peer_t *p, op_t *op, uint64_t length, int access,
                       bint sending, bint waited) noexcept nogil:
    """Whether `op` is to be copied, and not read; decides, and counts why."""
    cdef double near, reading, copying
    cdef bint cheaper
    decide(op, PROTOCOL_GET, REASON_ONLY if e.protocol == CHOICE_AUTO else REASON_ASKED)
    if e.protocol != CHOICE_AUTO or not p.fabric.capabilities & CAP_PINS \
            or not e.figures[fabric_index(e, p)].known:
        return False
    if op.flags & OP_REGISTERED:
        op.reason = REASON_HELD
        return False
    near = uses_near(e, p, op, length, access)
    cheaper = figures_pick(&e.figures[fabric_index(e, p)], length, near,
                           uses_far(e, p, near) if sending else 0, &reading, &copying)
    cache_used(e.cache, op.owner)
    weigh(op, reading, copying)
    waited = waited and lane_idle(e, p, not sending)
    if near == 0 and not (cheaper and waited):
        e.counters.picks_cached += 1
        op.reason = REASON_HELD
    elif not cheaper:
        e.counters.picks_fresh += 1
        op.reason = REASON_COST
    elif not waited:
        e.counters.picks_unwaited += 1
        op.reason = REASON_UNWAITED
    else:
        e.counters.picks_piped += 1
        decide(op, PROTOCOL_PIPELINE, REASON_COST)
        weigh(op, copying, reading)
    return op.protocol == PROTOCOL_PIPELINE


# The sender's side -------------------------------------------------------------

cdef bint choose_eager(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    return length <= eager_limit(e, p) and eager_allowed(e, p, length)


cdef bint placing_pays(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef double near, placing, reading
    if e.protocol != CHOICE_AUTO:
        decide(op, PROTOCOL_PLACED, REASON_ASKED)
        return e.protocol == CHOICE_PIPELINE
    near = uses_near(e, p, op, op.length, ACCESS_REMOTE_READ)
    if not figures_place(&e.figures[fabric_index(e, p)], op.length, near, uses_far(e, p, near),
                         &placing, &reading):
        return False
    cache_used(e.cache, op.owner)
    decide(op, PROTOCOL_PLACED, REASON_COST)
    weigh(op, placing, reading)
    return True


cdef bint place_try(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    if not place_ready(p, op.length) or not placing_pays(e, p, op):
        return False
    # Into a buffer that was offered for it, it is written without a copy.
    if p.offer_count and e.policy.find(e, p, op.context, op.tag) != NULL:
        decide(op, PROTOCOL_NONE, REASON_NONE)
        return False
    place_fill(e, p, op)
    return True


cdef int choose_rendezvous(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    """call.  Registered, or to be copied through lanes."""
    # Where its peer has offered buffers the next message may be written into one.
    cdef bint waited = (p.patience >= PATIENT and p.offer_count == 0 and waiting_here(e, op))
    if e.protocol != CHOICE_PIPELINE:
        # While there is memory that can be registered (R1).
        lanes_keep(e, p)
        if not copying_pays(e, p, op, op.length, ACCESS_REMOTE_READ, True, waited):
            if op_register(e, op, p.rank, ACCESS_REMOTE_READ) == 0:
                return CHOSEN
            op.reason = REASON_REFUSED
    else:
        op.reason = REASON_ASKED
    if e.protocol != CHOICE_GET and lane_reserve(e, p, False):
        op.protocol = PROTOCOL_PIPELINE
        return CHOSEN
    if op.promised == PROMISE_NONE:
        return CHOSEN_NEVER
    # Its receiver knows of it, and must not wait for ever.
    op.promised = PROMISE_EMPTY
    op.length = 0
    decide(op, PROTOCOL_GET, REASON_REFUSED)
    return CHOSEN


cdef int choose_send(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    if op.length <= eager_limit(e, p) or p.queue_head == NULL and place_try(e, p, op):
        return CHOSEN
    return choose_rendezvous(e, p, op)


cdef int choose_now(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef uint8_t before = op.protocol
    cdef int status = choose_again(e, p, op)
    if status == CHOSEN and op.protocol != before:
        trace_op(e, TRACE_CREDIT if op.reason == REASON_CREDIT else TRACE_CHOOSE, op, op.length,
                 0, 0)
    return status


cdef int choose_again(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int status
    if op.protocol == PROTOCOL_PLACED:
        return CHOSEN
    if choose_eager(e, p, op.length):
        decide(op, PROTOCOL_EAGER, REASON_SIZE)
        return CHOSEN
    if op.protocol == PROTOCOL_NONE and op.length == 0:
        decide(op, PROTOCOL_GET, REASON_CREDIT)
    elif op.protocol == PROTOCOL_NONE:
        if not e.in_call:
            peer_call(e, p)
            return CHOSEN_LATER
        status = choose_rendezvous(e, p, op)
        if status != CHOSEN:
            return status
        if op.protocol == PROTOCOL_GET and op.length:
            op.reason = REASON_CREDIT
    if offer_for(e, p, op) != NULL:
        decide(op, PROTOCOL_PUT, REASON_OFFER)
    elif op.protocol == PROTOCOL_PUT:
        # The offer was taken back before the announcement could be posted.
        decide(op, PROTOCOL_GET, REASON_ONLY)
    return CHOSEN


cdef offer_t *offer_for(engine_t *e, peer_t *p, const op_t *op) noexcept nogil:
    cdef offer_t *offer
    if p.offers == NULL or op.length == 0 or op.protocol == PROTOCOL_PIPELINE:
        return NULL
    offer = e.policy.find(e, p, op.context, op.tag)
    return offer if offer != NULL and offer.capacity >= op.length else NULL


# The receiver's side -----------------------------------------------------------

cdef bint choose_receive(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef bint waited = op.waits & WAITS_THERE and waiting_here(e, op)
    cdef bint able = True
    lanes_keep(e, p)
    if not copying_pays(e, p, op, op_wanted(op), ACCESS_LOCAL, False, waited) \
            and op_register(e, op, p.rank, ACCESS_LOCAL):
        decide(op, PROTOCOL_PIPELINE, REASON_REFUSED)
        able = e.protocol != CHOICE_GET
    trace_op(e, TRACE_CHOOSE, op, op_wanted(op), 0, 0)
    return able


cdef void place_missed(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    cdef double placing, reading
    if e.protocol == CHOICE_GET or not eager_limit(e, p) < length <= e.lane_bytes \
            or not place_able(e, p):
        return
    if e.protocol == CHOICE_PIPELINE or figures_place(&e.figures[fabric_index(e, p)], length,
                                                      USES, USES, &placing, &reading):
        stand_consider(e, p)


# For people --------------------------------------------------------------------

#: Each `op.reason` in words.
REASONS = {
    REASON_NONE: "not chosen yet",
    REASON_SIZE: "small",
    REASON_CREDIT: "small, but the receiver has not taken enough of the earlier ones",
    REASON_ASKED: "PYRDV_PROTOCOL",
    REASON_ONLY: "nothing was measured or possible that could be compared",
    REASON_HELD: "its memory is registered already",
    REASON_COST: "costs less",
    REASON_UNWAITED: "costs more, but one side may compute meanwhile",
    REASON_REFUSED: "its memory could not be registered",
    REASON_OFFER: "the receiver came first",
    REASON_PEER: "the other side said so",
    REASON_SELF: "to this process",
}
