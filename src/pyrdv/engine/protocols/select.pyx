# cython: language_level=3
"""Which protocol a message takes: one function of size, peer and credits.

Eager up to the smaller of the knob (or the fabric's own figure) and what one
packet holds, while the receiver's unexpected memory is sure to have room (P1);
placed, up to what a standing buffer holds, where the peer has given some and copying costs
less than asking (`figures`); rendezvous otherwise.  A rendezvous reads or writes the user's
memory, unless it cannot be registered or copying it costs less (`figures`): then the superpipeline
moves it.

A READ goes on by itself, a superpipeline only in calls of both sides.  So it is chosen for its
speed only where both ends wait (`waiting`): the receiver knows of its own and is told of the
sender's by RTS; the sender guesses by what DONE told of the receives before.  The
choice is made once, in constant time, by the call that registers; what was registered costs
nothing.
"""
from libc.stdint cimport uint64_t

from pyrdv.engine.figures cimport PICK_PIPELINE, fabric_index, figures_pick, figures_place
from pyrdv.engine.lanes cimport lane_idle, lane_reserve, lanes_keep
from pyrdv.engine.op cimport op_register
from pyrdv.engine.peer cimport eager_allowed
from pyrdv.engine.protocols.placed cimport place_able, place_fill, place_ready, stand_consider
from pyrdv.engine.state cimport (
    CHOICE_AUTO, CHOICE_GET, CHOICE_PIPELINE, OP_PIPED, OP_REGISTERED, PATIENT, WAITS_THERE,
    engine_t, op_t, peer_t)
from pyrdv.engine.waiting cimport waiting_here
from pyrdv.engine.wire cimport WIRE_HEADER
from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_READ, CAP_PINS, FABRIC_AGAIN, FABRIC_FAILED, FABRIC_OK)
from pyrdv.memory.mappings cimport cache_holds, cache_used, cache_uses


cdef enum:
    USES = 1                    # of a registration: buffers that are good for new memory are given


cdef uint64_t eager_limit(engine_t *e, peer_t *p) noexcept nogil:
    cdef uint64_t limit = e.eager_max if e.eager_max else p.fabric.eager_max
    cdef uint64_t room = p.fabric.packet_max - WIRE_HEADER
    return limit if limit < room else room


cdef int choose(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    if length <= eager_limit(e, p) and eager_allowed(e, p, length):
        return PROTOCOL_EAGER
    return PROTOCOL_RENDEZVOUS


cdef bint copying_pays(engine_t *e, peer_t *p, op_t *op, uint64_t length, int access,
                       bint sending, bint waited) noexcept nogil:
    """Whether to copy is cheaper for this side than to read, and register; counts why."""
    cdef int i
    cdef double near = 0
    cdef double far = 0
    cdef bint held, copying
    if e.protocol != CHOICE_AUTO or not p.fabric.capabilities & CAP_PINS:
        return False
    i = fabric_index(e, p)
    if not e.figures[i].known or op.flags & OP_REGISTERED:
        return False
    held = cache_holds(e.cache, op.owner, i, op.buffer, length, access)
    if not held:
        near = cache_uses(e.cache, op.owner, i, access)
    if sending:
        # The other side is probably as new to its memory; what it offers to writes is not kept.
        far = near if e.cache.devices[i].exposed & ACCESS_LOCAL == 0 else 1
    copying = figures_pick(&e.figures[i], length, near, far) == PICK_PIPELINE
    cache_used(e.cache, op.owner)
    if held and not (copying and waited and lane_idle(e, p, not sending)):
        e.counters.picks_cached += 1
        copying = False
    elif not copying:
        e.counters.picks_fresh += 1
    elif not waited or not lane_idle(e, p, not sending):
        e.counters.picks_unwaited += 1
        copying = False
    else:
        e.counters.picks_piped += 1
    return copying


cdef bint placing_pays(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int i
    cdef double near = 0
    cdef double far
    if e.protocol != CHOICE_AUTO:
        return e.protocol == CHOICE_PIPELINE
    i = fabric_index(e, p)
    if not op.flags & OP_REGISTERED and not cache_holds(e.cache, op.owner, i, op.buffer, op.length,
                                                        ACCESS_REMOTE_READ):
        near = cache_uses(e.cache, op.owner, i, ACCESS_REMOTE_READ)
    far = near if e.cache.devices[i].exposed & ACCESS_LOCAL == 0 else 1
    if not figures_place(&e.figures[i], op.length, near, far):
        return False
    cache_used(e.cache, op.owner)
    return True


cdef bint place_try(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    # What eager takes, with credit, is not placed without: it must not be both.
    if op.length <= eager_limit(e, p) or not place_ready(p, op.length) \
            or not placing_pays(e, p, op):
        return False
    # Into a buffer that was offered for it, it is written without a copy.
    if p.offer_count and e.policy.find(e, p, op.context, op.tag) != NULL:
        return False
    place_fill(e, p, op)
    return True


cdef void place_missed(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    if e.protocol == CHOICE_GET or not eager_limit(e, p) < length <= e.lane_bytes \
            or not place_able(e, p):
        return
    if e.protocol == CHOICE_PIPELINE or figures_place(&e.figures[fabric_index(e, p)], length,
                                                      USES, USES):
        stand_consider(e, p)


cdef bint receive_piped(engine_t *e, peer_t *p, op_t *op, uint64_t length) noexcept nogil:
    return copying_pays(e, p, op, length, ACCESS_LOCAL, False,
                        op.waits & WAITS_THERE and waiting_here(e, op))


cdef bint send_piped(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    # Where its peer has offered buffers the next message may be written into one.
    return copying_pays(e, p, op, op.length, ACCESS_REMOTE_READ, True,
                        p.patience >= PATIENT and p.offer_count == 0 and waiting_here(e, op))


cdef int prepare(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    if op.length == 0 or op.flags & (OP_REGISTERED | OP_PIPED):
        return FABRIC_OK
    if not e.in_call:
        e.call_needed = 1
        return FABRIC_AGAIN
    # While there is memory that can be registered (R1).
    lanes_keep(e, p)
    if e.protocol != CHOICE_PIPELINE and not send_piped(e, p, op) \
            and op_register(e, op, p.rank, ACCESS_REMOTE_READ) == 0:
        return FABRIC_OK
    if e.protocol == CHOICE_GET or not lane_reserve(e, p, False):
        return FABRIC_FAILED
    op.flags |= OP_PIPED
    return FABRIC_OK
