# cython: language_level=3
"""Which protocol a message takes, and why: the only place that decides.

What costs less, and what is asked for, is the affair of ``rule``; its facts are gathered here.
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

from pyrdv.engine.calling cimport call_running, peer_call
from pyrdv.engine.choice.costs cimport fabric_index, figures_place
from pyrdv.engine.choice.rule cimport decision_t, facts_t, rule_place, rule_read
from pyrdv.engine.choice.waiting cimport waiting_here
from pyrdv.engine.event cimport TRACE_CHOOSE, TRACE_CREDIT
from pyrdv.engine.protocols.lanes cimport lane_idle, lane_reserve, lanes_keep, lanes_of
from pyrdv.engine.op cimport op_wanted
from pyrdv.engine.peer cimport eager_limit
from pyrdv.engine.protocols.placed cimport (
    place_able, place_fill, place_ready, place_welcome, stand_consider)
from pyrdv.engine.registering cimport op_register, op_sinks
from pyrdv.engine.speculation.offers cimport offers_of
from pyrdv.engine.state cimport (
    CHOICE_AUTO, CHOICE_GET, CHOICE_PIPELINE, OP_REGISTERED, PATIENT, PROMISE_EMPTY, PROMISE_NONE,
    PROTOCOL_EAGER, PROTOCOL_GET, PROTOCOL_NONE, PROTOCOL_PIPELINE, PROTOCOL_PLACED, PROTOCOL_PUT,
    REASON_ASKED, REASON_COST, REASON_CREDIT, REASON_HELD, REASON_OFFER, REASON_ONLY, REASON_PEER,
    REASON_REFUSED, REASON_SIZE, WAITS_THERE, call_t, engine_t, offer_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_op
from pyrdv.fabrics.contract cimport ACCESS_LOCAL, ACCESS_REMOTE_READ, CAP_PINS
from pyrdv.memory.mappings cimport cache_holds, cache_used, cache_uses


cdef enum:
    USES = 1                    # of a registration: buffers that are good for new memory are given


cdef inline void decide(op_t *op, int protocol, int reason) noexcept nogil:
    op.protocol = <uint8_t> protocol
    op.reason = <uint8_t> reason


cdef inline void follow(op_t *op, const decision_t *found) noexcept nogil:
    op.protocol = found.protocol
    op.reason = found.reason
    op.cost = <float> found.cost
    op.instead = <float> found.instead


# Both sides --------------------------------------------------------------------

cdef void facts_of(engine_t *e, peer_t *p, const op_t *op, uint64_t length,
                   facts_t *facts) noexcept nogil:
    facts.figures = &e.figures[fabric_index(e, p)]
    facts.length = length
    facts.asked = e.protocol
    facts.pins = p.fabric.capabilities & CAP_PINS != 0
    facts.registered = op.flags & OP_REGISTERED != 0
    facts.waited = False
    facts.near = facts.far = 0


cdef void ask_cache(engine_t *e, peer_t *p, const op_t *op, int access,
                    facts_t *facts) noexcept nogil:
    """How often registrations of both sides would be used, as the cache guesses."""
    cdef int i = fabric_index(e, p)
    if not facts.registered and not cache_holds(e.cache, op.owner, i, op.buffer, facts.length,
                                                access):
        facts.near = cache_uses(e.cache, op.owner, i, access)
    # The other side is probably as new to its memory; what it offers to writes is not kept.
    facts.far = facts.near if e.cache.devices[i].exposed & ACCESS_LOCAL == 0 else 1


cdef bint copying_pays(engine_t *e, peer_t *p, op_t *op, uint64_t length, int access,
                       bint sending, bint waited) noexcept nogil:
    """Whether `op` is to be copied, and not read; decides, and counts why."""
    cdef facts_t facts
    cdef decision_t found
    cdef bint weighing
    facts_of(e, p, op, length, &facts)
    weighing = (facts.asked == CHOICE_AUTO and facts.pins and facts.figures.known
                and not facts.registered)
    if weighing:
        ask_cache(e, p, op, access, &facts)
        if not sending:
            facts.far = 0       # the sender's memory is registered, or it would have said so
        facts.waited = waited and lane_idle(e, p, not sending)
    rule_read(&facts, &found)
    follow(op, &found)
    if weighing:
        cache_used(e.cache, op.owner)
        if found.protocol == PROTOCOL_PIPELINE:
            e.counters.picks_piped += 1
        elif found.reason == REASON_HELD:
            e.counters.picks_cached += 1
        elif found.reason == REASON_COST:
            e.counters.picks_fresh += 1
        else:
            e.counters.picks_unwaited += 1
    return found.protocol == PROTOCOL_PIPELINE


# The sender's side -------------------------------------------------------------

cdef bint placing_pays(engine_t *e, peer_t *p, op_t *op, decision_t *found) noexcept nogil:
    cdef facts_t facts
    facts_of(e, p, op, op.length, &facts)
    if facts.asked == CHOICE_AUTO:
        ask_cache(e, p, op, ACCESS_REMOTE_READ, &facts)
    if not rule_place(&facts, found):
        return False
    if facts.asked == CHOICE_AUTO:
        cache_used(e.cache, op.owner)
    return True


cdef bint place_try(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef decision_t found
    if not place_ready(p, op.length) or not placing_pays(e, p, op, &found):
        return False
    # Into a buffer that was offered for it, it is written without a copy.
    if offers_of(p).count and e.policy.find(e, p, op.context, op.tag) != NULL:
        return False
    follow(op, &found)
    place_fill(e, p, op)
    return True


cdef int choose_rendezvous(call_t *call, peer_t *p, op_t *op) noexcept nogil:
    """call.  Registered, or to be copied through lanes."""
    cdef engine_t *e = &call.engine
    # Where its peer has offered buffers the next message may be written into one.
    cdef bint waited = (p.patience >= PATIENT and offers_of(p).count == 0
                        and waiting_here(e, op))
    # While there is memory that can be registered (R1).
    lanes_keep(call, p)
    if not copying_pays(e, p, op, op.length, ACCESS_REMOTE_READ, True, waited):
        if op_register(call, op, p.fabric, ACCESS_REMOTE_READ) == 0:
            return CHOSEN
        op.reason = REASON_REFUSED
    if e.protocol != CHOICE_GET and lane_reserve(call, p, False):
        op.protocol = PROTOCOL_PIPELINE
        return CHOSEN
    if op.promised == PROMISE_NONE:
        return CHOSEN_NEVER
    # Its receiver knows of it, and must not wait for ever.
    op.promised = PROMISE_EMPTY
    op.length = 0
    decide(op, PROTOCOL_GET, REASON_REFUSED)
    return CHOSEN


cdef int choose_send(call_t *call, peer_t *p, op_t *op) noexcept nogil:
    cdef engine_t *e = &call.engine
    if op.length <= eager_limit(e, p.fabric) or p.queue_head == NULL and place_try(e, p, op):
        return CHOSEN
    return choose_rendezvous(call, p, op)


cdef int choose_ahead(call_t *call, peer_t *p, op_t *op) noexcept nogil:
    if op.length <= eager_limit(&call.engine, p.fabric):
        return CHOSEN
    return choose_rendezvous(call, p, op)


cdef int choose_now(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef uint8_t before = op.protocol
    cdef int status = choose_again(e, p, op)
    if status == CHOSEN and op.protocol != before:
        trace_op(e, TRACE_CREDIT if op.reason == REASON_CREDIT else TRACE_CHOOSE, op, op.length,
                 0, 0)
    return status


cdef int choose_again(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef call_t *call = call_running(e)
    cdef int status
    if op.protocol == PROTOCOL_PLACED:
        return CHOSEN
    if choose_eager(e, p, op.length):
        decide(op, PROTOCOL_EAGER, REASON_SIZE)
        return CHOSEN
    if op.protocol == PROTOCOL_NONE and (op.length == 0 or op.flags & OP_REGISTERED):
        decide(op, PROTOCOL_GET, REASON_CREDIT)
    elif op.protocol == PROTOCOL_NONE:
        if call == NULL:
            peer_call(e, p)
            return CHOSEN_LATER
        status = choose_rendezvous(call, p, op)
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
    if offers_of(p).count == 0 or op.length == 0 or op.protocol == PROTOCOL_PIPELINE:
        return NULL
    offer = e.policy.find(e, p, op.context, op.tag)
    return offer if offer != NULL and offer.capacity >= op.length else NULL


# The receiver's side -----------------------------------------------------------

cdef bint choose_offer(call_t *call, peer_t *p, op_t *op, bint *held) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef facts_t facts
    cdef decision_t found
    facts_of(e, p, op, op.length, &facts)
    held[0] = False
    if not facts.pins or facts.asked == CHOICE_PIPELINE:
        return facts.asked != CHOICE_PIPELINE
    # As if it were to be read: what an offer costs beyond that is the affair of the policy.
    ask_cache(e, p, op, ACCESS_LOCAL, &facts)
    held[0] = facts.near == 0
    if facts.asked != CHOICE_AUTO or not facts.figures.known:
        return True
    if place_welcome(e, p, op.length) and rule_place(&facts, &found):
        return False
    facts.far = 0
    facts.waited = waiting_here(e, op) and lane_idle(e, p, True)
    rule_read(&facts, &found)
    return found.protocol != PROTOCOL_PIPELINE


cdef bint receive_copied(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef bint waited = op.waits & WAITS_THERE and waiting_here(e, op)
    return copying_pays(e, p, op, op_wanted(op), ACCESS_LOCAL, False, waited)


cdef int choose_sink(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    """Receive `op` cannot be read into its buffer as it is."""
    cdef call_t *call = call_running(e)
    if call == NULL:
        peer_call(e, p)
        return CHOSEN_LATER
    lanes_keep(call, p)
    if receive_copied(e, p, op) or op_register(call, op, p.fabric, ACCESS_LOCAL) == 0:
        return CHOSEN
    decide(op, PROTOCOL_PIPELINE, REASON_REFUSED)
    return CHOSEN_NEVER if e.protocol == CHOICE_GET else CHOSEN


cdef void choose_announced(engine_t *e, op_t *op, bint piped) noexcept nogil:
    if e.protocol == CHOICE_PIPELINE and not piped:
        decide(op, PROTOCOL_PIPELINE, REASON_ASKED)
    else:
        decide(op, PROTOCOL_PIPELINE if piped else PROTOCOL_GET, REASON_PEER)


cdef int choose_receive(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int status = CHOSEN
    if op_sinks(op, p.fabric):
        receive_copied(e, p, op)
    else:
        status = choose_sink(e, p, op)
    if status != CHOSEN_LATER:
        trace_op(e, TRACE_CHOOSE, op, op_wanted(op), 0, 0)
    return status


cdef void place_missed(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    cdef double placing, reading
    if e.protocol == CHOICE_GET or not eager_limit(e, p.fabric) < length <= lanes_of(e).bytes \
            or not place_able(e, p):
        return
    if e.protocol == CHOICE_PIPELINE or figures_place(&e.figures[fabric_index(e, p)], length,
                                                      USES, USES, &placing, &reading):
        stand_consider(e, p)
