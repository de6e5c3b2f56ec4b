# cython: language_level=3
"""Which operations need a step of this side that no call makes, and lists of them."""
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, realloc

from pyrdv.engine.state cimport (
    ANY_PEER, OP_CANCELLING, OP_LANDING, OP_LANELESS, OP_OFFERED, OP_PIPING, OP_POSTED, OP_QUEUED,
    OP_READING, OP_READY, OP_RECV, OP_SCHEDULED, OP_SEND, OP_WAITING, OP_WRITING, PROTOCOL_GET,
    PROTOCOL_PIPELINE, engine_t, op_t)
from pyrdv.fabrics.contract cimport CAP_HELD, CAP_POLLED, CAP_SINGLE_COPY


cdef enum:
    ENTRIES = 16                # of a list at first


cdef inline uint32_t lacking(const engine_t *e, const op_t *op, uint32_t capability) noexcept nogil:
    """Of `capability`, what the fabric between this rank and the other side of `op` has not."""
    cdef uint32_t peer = op.peer if op.kind == OP_SEND or op.state == OP_POSTED else op.source
    if peer == ANY_PEER or e.peers[peer].fabric == NULL:
        return 0
    return capability & ~e.peers[peer].fabric.capabilities


cdef bint needs(const engine_t *e, const op_t *op) noexcept nogil:
    if op.state == OP_POSTED:
        # With an offer out, its sender writes; a cancel that asks waits for an answer.
        return op.kind == OP_RECV and (not op.flags & OP_OFFERED or op.flags & OP_CANCELLING
                                       or lacking(e, op, CAP_SINGLE_COPY))
    if op.state == OP_WAITING:
        # For GRANT, or for a READ that takes this processor, too.
        return op.protocol == PROTOCOL_PIPELINE \
            or op.protocol == PROTOCOL_GET and lacking(e, op, CAP_SINGLE_COPY)
    if op.state == OP_LANDING:
        return lacking(e, op, CAP_SINGLE_COPY) != 0
    if op.state == OP_READING and not lacking(e, op, CAP_HELD):
        return True             # DONE waits here for the end of the READ, and its sender for DONE
    if op.state == OP_READING or op.state == OP_WRITING:
        return not lacking(e, op, CAP_POLLED)
    return op.state == OP_QUEUED or op.state == OP_READY or op.state == OP_LANELESS \
        or op.state == OP_PIPING or op.state == OP_SCHEDULED


cdef uint32_t transfers_moved(const engine_t *e) noexcept nogil:
    cdef uint32_t sum = 0
    cdef int i
    for i in range(e.fabric_count):
        sum += e.fabrics[i].carried
    return sum


cdef bint needing_left(const engine_t *e, needing_t *list) noexcept nogil:
    cdef const watched_t *w
    while list.count:
        w = &list.entries[list.first]
        if w.op.generation == w.generation and needs(e, w.op):
            return True
        list.first += 1
        list.count -= 1
    list.first = 0
    return False


cdef bint needing_add(needing_t *list, op_t *op) noexcept nogil:
    cdef watched_t *more
    cdef uint32_t i
    if list.first + list.count == list.room and list.first:
        for i in range(list.count):
            list.entries[i] = list.entries[list.first + i]
        list.first = 0
    if list.count == list.room:
        more = <watched_t *> realloc(list.entries, 2 * max(list.room, ENTRIES) * sizeof(watched_t))
        if more == NULL:
            return False
        list.entries = more
        list.room = 2 * max(list.room, ENTRIES)
    list.entries[list.first + list.count].op = op
    list.entries[list.first + list.count].generation = op.generation
    list.count += 1
    return True


cdef void needing_free(needing_t *list) noexcept nogil:
    free(list.entries)
    list.entries = NULL
    list.first = list.count = list.room = 0
