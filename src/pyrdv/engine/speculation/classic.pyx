# cython: language_level=3
"""The ``classic`` pairing: RTRs and sends meet in their order, and say so where one is left out.

As published: Rashti and Afsahi, "A Speculative and Adaptive MPI Rendezvous Protocol Over
RDMA-enabled Interconnects", section 3.3, with two mends (C2, C5; ``docs/protocols.md`` shows what
happens without them).  START is its RTR-ACK, RTS-ACK a packet of its own, the Sendq the
index of unanswered sends.  Flags are kept per *class* of envelopes (``class_of``), for there may
be any number of envelopes; the n-th class of a peer is the same on both sides.

Sender, of one class:

  OPEN ──EAGER──▶ FLAGGED ──RTS with STOP-RTR──▶ WAIT ──its RTS-ACK or DONE──▶ QUIET
    ▲                                                                            │
    └────────────────────────────── RTS with RESUME-RTR ─────────────────────────┘

Invariants:

C1  In a class that is OPEN, the sends of an envelope are paired with its RTRs in their order,
    each RTR once: the first send that was announced by RTS and not answered, or else the first
    that is still to come.  So whatever is announced takes the oldest offer away, used or not.
C2  C1 needs an answer for each RTS before the RTR of a later receive: the RTR of its own
    receive, or RTS-ACK, GRANT or DONE.  A receive without a live RTR acknowledges; until it has,
    no RTR is sent to that peer.  (As published, only one that finds its RTS in its own call does.)
C3  C1 needs an RTR of each receive that is posted before another one with an RTR.  So none is
    sent behind a receive that could take the message and has no live one, be it a
    wildcard, a matched probe, one too small, or one whose RTR found no room on its way.
C4  A small message takes no RTR, and the one of its receive may be on its way or not: from
    then on no RTR of the class is used (FLAGGED).  The next RTS says STOP-RTR.  All RTRs
    that were sent before it was heard have arrived when it is acknowledged.  An RTR that is
    refused for want of room leaves the same doubt.
C5  STOP-RTR makes every RTR void that was sent before; its receive is one without (C2, C3).
    (As published, it counts as one with.)
C6  Accumulation: after MISSED_MAX RTRs in a row that met small messages, a receiver sends no
    more until the class sees a rendezvous.  The sender of a flagged class keeps none.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.digest cimport mix
from pyrdv.engine.matching cimport posted_behind_wildcard
from pyrdv.engine.op cimport op_lookup
from pyrdv.engine.speculation.adaptation cimport (
    advice_heard, advice_told, advise, habits_hash, habits_t, rtr_judged, withheld)
from pyrdv.engine.speculation.offers cimport offer_drop, offer_keep, offers_hash
from pyrdv.engine.protocols.rendezvous_put cimport revoking
from pyrdv.engine.state cimport (
    OP_OFFERED, PAIR_ACK, PAIR_STOP, PAIR_UNANSWERED, engine_t, node_t, offer_t, op_t, peer_t,
    policy_t)
from pyrdv.engine.wire cimport (
    PACKET_EAGER, PACKET_RESUME_RTR, PACKET_RTS, PACKET_START, PACKET_STOP_RTR, header_t, rtr_t)


cdef enum:
    MISSED_MAX = 4

cdef enum class_state:
    CLASS_OPEN = 0
    CLASS_FLAGGED = 1           # the Eager-flag is set
    CLASS_WAIT = 2              # STOP-RTR was told, and not acknowledged
    CLASS_QUIET = 3             # no RTR is on its way; RESUME-RTR is still to be told


cdef inline uint32_t class_of(uint32_t context, int32_t tag) noexcept nogil:
    # docs/wire.md, section 4.3: both sides must reckon alike.
    cdef uint32_t h = context * <uint32_t> 0x9E3779B1u ^ <uint32_t> tag * <uint32_t> 0xC2B2AE3Du
    return (h ^ h >> 15) % CLASSES


cdef inline classic_t *own(const peer_t *p) noexcept nogil:
    return <classic_t *> p.pairing


cdef inline class_t *of(const peer_t *p, uint32_t context, int32_t tag) noexcept nogil:
    return &own(p).classes[class_of(context, tag)]


# The receiver's side -----------------------------------------------------------

cdef inline bint live(const peer_t *p, const class_t *c, const op_t *op) noexcept nogil:
    """Whether the sender pairs the RTR of `op`, which it has or is to get."""
    return op.flags & OP_OFFERED and op.halts == c.halts and not revoking(p)


cdef bint classic_may_offer(engine_t *e, op_t *op, uint32_t *ahead) noexcept nogil:
    cdef peer_t *p = &e.peers[op.peer]
    cdef class_t *c = of(p, op.context, op.tag)
    if c.stopped or c.missed >= MISSED_MAX or own(p).unacked or posted_behind_wildcard(e, op):
        return False
    # It stands for all before it: what makes one of them void makes it void as well.
    if op.node.prev != NULL and not live(p, c, <op_t *> op.node.prev.entry):
        return False
    op.halts = c.halts
    ahead[0] = 0
    return True


cdef void classic_met(engine_t *e, peer_t *p, op_t *op, const header_t *h) noexcept nogil:
    cdef class_t *c = of(p, h.context, h.tag)
    if h.kind == PACKET_EAGER:
        if op != NULL and live(p, c, op) and c.missed < MISSED_MAX:
            c.missed += 1
        return
    c.missed = 0
    if h.kind != PACKET_RTS:
        return
    if h.flags & PACKET_STOP_RTR:
        c.stopped = 1
        c.halts += 1
    elif h.flags & PACKET_RESUME_RTR:
        c.stopped = 0
    if op != NULL and not live(p, c, op):
        op.pairing |= PAIR_ACK
        own(p).unacked += 1


cdef void classic_claimed(peer_t *p) noexcept nogil:
    own(p).unacked += 1


cdef void classic_acknowledged(peer_t *p, op_t *op) noexcept nogil:
    op.pairing &= <uint8_t> ~PAIR_ACK
    own(p).unacked -= 1


# The sender's side -------------------------------------------------------------

# Sends announced by RTS that nothing has answered, in the order of their announcements: the Sendq.

cdef void unanswered_add(peer_t *p, op_t *op) noexcept nogil:
    cdef class_t *c = of(p, op.context, op.tag)
    op.pairing |= PAIR_UNANSWERED
    op.node.entry = op
    op.node.next = NULL
    op.node.prev = c.newest
    (&c.oldest if c.newest == NULL else &c.newest.next)[0] = &op.node
    c.newest = &op.node


cdef void unanswered_remove(peer_t *p, op_t *op) noexcept nogil:
    cdef class_t *c = of(p, op.context, op.tag)
    op.pairing &= <uint8_t> ~PAIR_UNANSWERED
    (&c.oldest if op.node.prev == NULL else &op.node.prev.next)[0] = op.node.next
    (&c.newest if op.node.next == NULL else &op.node.next.prev)[0] = op.node.prev


cdef op_t *unanswered_first(peer_t *p, uint32_t context, int32_t tag) noexcept nogil:
    cdef node_t *at = of(p, context, tag).oldest
    while at != NULL:
        if (<op_t *> at.entry).tag == tag and (<op_t *> at.entry).context == context:
            return <op_t *> at.entry
        at = at.next
    return NULL


cdef offer_t **oldest_offer(peer_t *p, uint32_t context, int32_t tag) noexcept nogil:
    """What points to the oldest offer of an envelope, or NULL; new ones are put before others."""
    cdef offer_t **link = &own(p).offers.first
    cdef offer_t **found = NULL
    while link[0] != NULL:
        if link[0].tag == tag and link[0].context == context:
            found = link
        link = &link[0].next
    return found


cdef void flag_class(engine_t *e, peer_t *p, uint32_t number) noexcept nogil:
    """Set the Eager-flag; offers of the class would be dropped by the next RTS anyway."""
    cdef offer_t **link = &own(p).offers.first
    own(p).classes[number].state = CLASS_FLAGGED
    while link[0] != NULL:
        if class_of(link[0].context, link[0].tag) == number:
            rtr_judged(e, p, link[0].context, link[0].tag, False)
            e.counters.rtrs_flagged += 1
            offer_drop(e, p, link)
        else:
            link = &link[0].next


cdef void classic_arrived(engine_t *e, peer_t *p, const rtr_t *rtr) noexcept nogil:
    cdef const header_t *h = &rtr.header
    cdef uint32_t number = class_of(h.context, h.tag)
    cdef op_t *op = unanswered_first(p, h.context, h.tag)
    if op != NULL:
        # RTR and RTS have crossed.
        unanswered_remove(p, op)
        e.counters.rtrs_stale += 1
    elif own(p).classes[number].state != CLASS_OPEN:
        e.counters.rtrs_flagged += 1
    elif offer_keep(e, p, rtr, 0):
        return
    else:
        e.counters.rtrs_refused += 1
        flag_class(e, p, number)
    rtr_judged(e, p, h.context, h.tag, False)


cdef offer_t *classic_find(engine_t *e, peer_t *p, uint32_t context,
                           int32_t tag) noexcept nogil:
    cdef offer_t **link = oldest_offer(p, context, tag)
    return link[0] if link != NULL else NULL


cdef void classic_advise(engine_t *e, peer_t *p, header_t *h) noexcept nogil:
    cdef uint8_t state = of(p, h.context, h.tag).state
    advise(e, p, h)
    if h.kind == PACKET_RTS and state == CLASS_FLAGGED:
        h.flags |= PACKET_STOP_RTR
    elif h.kind == PACKET_RTS:
        h.flags |= PACKET_RESUME_RTR if state == CLASS_QUIET else 0


cdef void classic_announced(engine_t *e, peer_t *p, const header_t *h) noexcept nogil:
    cdef uint32_t number = class_of(h.context, h.tag)
    cdef class_t *c = &own(p).classes[number]
    cdef offer_t **link = oldest_offer(p, h.context, h.tag)
    cdef op_t *op
    if link != NULL:
        offer_drop(e, p, link)
        rtr_judged(e, p, h.context, h.tag, h.kind == PACKET_START)
        e.counters.rtrs_unused += h.kind != PACKET_START
    if h.kind == PACKET_EAGER:
        if c.state == CLASS_OPEN:
            flag_class(e, p, number)
    elif h.kind == PACKET_RTS:
        op = op_lookup(e, h.cookie)
        if link == NULL:
            unanswered_add(p, op)
        if h.flags & PACKET_STOP_RTR:
            op.pairing |= PAIR_STOP
            c.state = CLASS_WAIT
        elif h.flags & PACKET_RESUME_RTR:
            c.state = CLASS_OPEN
    advice_told(e, p, h)


cdef void classic_answered(peer_t *p, op_t *op) noexcept nogil:
    if op.pairing & PAIR_UNANSWERED:
        unanswered_remove(p, op)
    if op.pairing & PAIR_STOP:
        op.pairing &= <uint8_t> ~PAIR_STOP
        of(p, op.context, op.tag).state = CLASS_QUIET


cdef void classic_hash(const peer_t *p, uint64_t *h) noexcept nogil:
    cdef const class_t *c
    cdef const node_t *at
    cdef int i
    offers_hash(p, h)
    mix(h, own(p).unacked)
    for i in range(CLASSES):
        c = &own(p).classes[i]
        mix(h, <uint64_t> c.halts << 32 | <uint64_t> c.stopped << 16 | <uint64_t> c.missed << 8
            | c.state)
        at = c.oldest
        while at != NULL:
            mix(h, (<op_t *> at.entry).index)
            at = at.next


cdef policy_t operations
operations.offers = True
operations.rts_flags = PACKET_STOP_RTR | PACKET_RESUME_RTR
operations.engine_bytes = sizeof(habits_t)
operations.peer_bytes = sizeof(classic_t)
operations.may_offer = classic_may_offer
operations.withholds = withheld
operations.heard = advice_heard
operations.met = classic_met
operations.claimed = classic_claimed
operations.acknowledged = classic_acknowledged
operations.arrived = classic_arrived
operations.find = classic_find
operations.advise = classic_advise
operations.announced = classic_announced
operations.answered = classic_answered
operations.hash = habits_hash
operations.hash_peer = classic_hash


cdef const policy_t *classic_policy() noexcept nogil:
    return &operations
