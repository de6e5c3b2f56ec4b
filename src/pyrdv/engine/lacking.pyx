# cython: language_level=3
"""Whether a wait cannot end because this process lacks something: a descriptor, memory, a right.

A fabric that is refused something by the system says so per peer (`fabric_t.lacks`) and tries again
later.  What depends on it is neither lost nor complete then, so:

1. A call that needs a new connection raises ResourceError at once; nothing was started.
2. A call that waits for something that such a connection must bring raises it, too, once it has
   looked in vain for a while.  A request stays under way, and can be waited for again.
3. Before an error is raised everything is tried once more: the program may just have closed files.
4. Other operations are not disturbed.
5. The end of the world does not wait for a connection either: it ends with the error instead.
"""
from libc.stdint cimport uint32_t

from pyrdv.engine.calls cimport call_begin, call_end
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.state cimport (
    ANY_PEER, OP_COMPLETE, OP_LACKING, OP_POSTED, OP_QUEUED, OP_RECV, OP_SEND, OP_WAITING, call_t,
    engine_t, op_t)
from pyrdv.engine.step cimport maintain, turn
from pyrdv.fabrics.contract cimport LACK_ACCEPT, LACK_CONNECT, fabric_t

from pyrdv.errors import from_status


cdef extern from "order.h" nogil:
    uint32_t glance32(const uint32_t *where)


cdef bint anything(const engine_t *e) noexcept nogil:
    cdef int i
    for i in range(e.fabric_count):
        if glance32(&e.fabrics[i].lacking):
            return True
    return False


cdef int lacks(const engine_t *e, uint32_t rank, int flags) noexcept nogil:
    cdef const fabric_t *fabric = e.peers[rank].fabric
    return fabric.lacks[rank] & flags if fabric != NULL and fabric.lacks != NULL else 0


cdef int find(const engine_t *e, uint32_t peer, int flags, uint32_t *found) noexcept nogil:
    # The peer itself, or the first of all for a wildcard.
    cdef uint32_t rank
    for rank in range(e.size):
        if (peer == ANY_PEER or peer == rank) and lacks(e, rank, flags):
            found[0] = rank
            return lacks(e, rank, flags)
    return 0


cdef int concerned(const engine_t *e, const op_t *op, uint32_t *found) noexcept nogil:
    if op.state == OP_POSTED:
        return find(e, op.peer, LACK_ACCEPT, found)
    if op.kind == OP_SEND:
        return find(e, op.peer, LACK_CONNECT if op.state == OP_QUEUED else
                    LACK_ACCEPT if op.state == OP_WAITING else LACK_CONNECT | LACK_ACCEPT, found)
    return find(e, op.source if op.kind == OP_RECV else op.peer, LACK_CONNECT | LACK_ACCEPT, found)


cdef void try_again(call_t *call) noexcept nogil:
    call.engine.retry_at = 0
    maintain(call)
    turn(call)


cdef int engine_lacking(engine_t *e, op_t *op, uint32_t generation, uint32_t *peer) noexcept nogil:
    cdef call_t *call
    cdef int found = 0
    call = call_begin(e)
    if op.generation == generation and op.state != OP_COMPLETE and concerned(e, op, peer):
        try_again(call)
        if op.generation == generation and op.state != OP_COMPLETE:
            found = concerned(e, op, peer)
    call_end(call)
    return found


cdef bint engine_source_lacking(engine_t *e, uint32_t source, uint32_t *peer) noexcept nogil:
    cdef call_t *call
    cdef int found
    call = call_begin(e)
    found = find(e, source, LACK_ACCEPT, peer)
    if found:
        try_again(call)
        found = find(e, source, LACK_ACCEPT, peer)
    call_end(call)
    return found


cdef int complain(Engine engine, op_t *op, uint32_t generation) except -1:
    cdef uint32_t peer = 0
    cdef int found = engine_lacking(engine.c, op, generation, &peer) if anything(engine.c) else 0
    if found:
        raise lack(engine, peer, not found & LACK_CONNECT)
    return 0


cdef int complain_source(Engine engine, uint32_t source) except -1:
    cdef uint32_t peer = 0
    if anything(engine.c) and engine_source_lacking(engine.c, source, &peer):
        raise lack(engine, peer, True)
    return 0


cdef object fabric_of(Engine engine, uint32_t peer):
    cdef int i
    for i in range(engine.c.fabric_count):
        if engine.c.fabrics[i] == engine.c.peers[peer].fabric:
            return engine.fabrics[i]
    return None


cdef object lack(Engine engine, uint32_t peer, bint incoming):
    return from_status(OP_LACKING, peer=peer,
                       reason=fabric_of(engine, peer).lack_text(peer, incoming))


cdef str reason(Engine engine, uint32_t peer):
    fabric = fabric_of(engine, peer)
    return (fabric.failure_text(peer) if fabric is not None else "") or engine.ends.get(peer, "")


cdef int engine_unsent(engine_t *e, uint32_t *peer) noexcept nogil:
    """Is there a send that waits for a connection, which lacks something?"""
    cdef call_t *call
    cdef uint32_t rank
    cdef bint found = False
    call = call_begin(e)
    for rank in range(e.size):
        if e.peers[rank].queue_head != NULL and lacks(e, rank, LACK_CONNECT):
            try_again(call)
            found = e.peers[rank].queue_head != NULL and lacks(e, rank, LACK_CONNECT) != 0
            if found:
                peer[0] = rank
                break
    call_end(call)
    return found


def complain_of_sends(Engine engine):
    """Raise ResourceError if a send cannot leave, for its connection lacks something."""
    cdef uint32_t peer = 0
    if anything(engine.c) and engine_unsent(engine.c, &peer):
        raise lack(engine, peer, False)


def error(Engine engine, peer):
    """The ResourceError for the connection to world rank `peer`."""
    return lack(engine, peer, False)


def say_last(Engine engine, text):
    """Tell all peers why this rank ends (`Fabric.last_words`)."""
    for fabric in engine.fabrics:
        fabric.last_words(text)
