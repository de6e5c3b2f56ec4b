# cython: language_level=3, nonecheck=True
"""Probes: looking for messages without receiving them."""
from libc.stdint cimport uint8_t, uint32_t

from pyrdv.api.core cimport ANY_TAG_NUMBER, PROC_NULL_, CommBase
from pyrdv.api.message cimport Message
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport engine_deaths, engine_peer_died, engine_probe, envelope_t
from pyrdv.engine.lacking cimport complain_source
from pyrdv.engine.state cimport (
    ANY_PEER, OP_FINALIZED, OP_PEER_LOST, PEER_CLOSED, PEER_LOST, message_t)
from pyrdv.progress.beside cimport alone, help_pending
from pyrdv.progress.pausing cimport patience_looks, patience_reset, patience_t
from pyrdv.progress.waiting cimport wait_turn

from pyrdv.errors import from_status


cdef extern from "order.h" nogil:
    uint8_t glance8(const uint8_t *where)


cdef bint no_process(CommBase comm, long long source, long long tag, Status status) except -1:
    """Check the arguments; whether `source` is PROC_NULL, with `status` filled."""
    comm.check_receive(source, tag)
    if source != PROC_NULL_:
        return False
    if status is not None:
        status.set(PROC_NULL_, ANY_TAG_NUMBER, 0, 0)
    return True


cdef inline uint32_t world_rank(CommBase comm, long long source):
    return ANY_PEER if source < 0 else comm.members.to_world(<int> source)


cdef Message matched(CommBase comm, message_t *m):
    """The Message of a taken `m`; NULL: from PROC_NULL."""
    cdef Message message = Message.__new__(Message)
    message.comm = comm
    message.m = m
    message.no_proc = m == NULL
    if m != NULL:
        message.source = comm.from_world(m.peer)
        message.tag = m.tag
        message.nbytes = m.length
    return message


cdef bint look(CommBase comm, long long source, long long tag, Status status,
               message_t **taken) except -1:
    """Look once; `taken` != NULL: take the message out of the queue."""
    cdef envelope_t envelope
    cdef uint32_t peer = world_rank(comm, source)
    if not engine_probe(comm.engine.c, peer, comm.context, <int> tag, &envelope, taken):
        help_pending(comm.engine, False)
        complain_source(comm.engine, peer)
        return False
    if status is not None:
        status.set(comm.from_world(envelope.source), envelope.tag, envelope.length, 0)
    return True


cdef int expect(CommBase comm, long long source) except -1:
    """Raise if nothing can come from `source` any more."""
    cdef uint8_t state
    if comm.engine.ending:
        raise from_status(OP_FINALIZED, what="a probe")
    if source >= 0:
        state = glance8(&comm.engine.c.peers[comm.members.to_world(<int> source)].state)
        if state == PEER_CLOSED or state == PEER_LOST:
            raise comm.failure(OP_PEER_LOST, <int> source, 0, 0, 0)
    elif comm.members.size > 1 and alone(comm.engine, comm.context):
        raise comm.failure(OP_PEER_LOST, -1, 0, 0, 0)
    return 0


cdef bint look_once(CommBase comm, long long source, long long tag, Status status,
                    message_t **taken) except -1:
    """Look without waiting: a loop of such looks must not go on after a death for ever."""
    if look(comm, source, tag, status, taken):
        return True
    if engine_deaths(comm.engine.c) and (source < 0 or engine_peer_died(
            comm.engine.c, comm.members.to_world(<int> source))):
        expect(comm, source)
    return False


cdef bint look_until(CommBase comm, long long source, long long tag, Status status,
                     message_t **taken) except -1:
    cdef patience_t patience
    patience_reset(&patience)
    while True:
        patience_looks(comm.engine.c, &patience)
        if look(comm, source, tag, status, taken):
            return True
        expect(comm, source)
        wait_turn(comm.engine, &patience)


cdef bint glance(CommBase comm, long long source, long long tag, Status status) except -1:
    return no_process(comm, source, tag, status) or look_once(comm, source, tag, status, NULL)


cdef bint wait_for(CommBase comm, long long source, long long tag, Status status) except -1:
    return no_process(comm, source, tag, status) or look_until(comm, source, tag, status, NULL)


cdef Message glance_taking(CommBase comm, long long source, long long tag, Status status):
    cdef message_t *m = NULL
    if no_process(comm, source, tag, status) or look_once(comm, source, tag, status, &m):
        return matched(comm, m)
    return None


cdef Message wait_taking(CommBase comm, long long source, long long tag, Status status):
    cdef message_t *m = NULL
    if not no_process(comm, source, tag, status):
        look_until(comm, source, tag, status, &m)
    return matched(comm, m)


def take(CommBase comm not None, long long source, long long tag):
    """As `Comm.Improbe`, but no error where nobody is left, or something is lacking: for messages
    of the package's own."""
    cdef message_t *m = NULL
    cdef envelope_t envelope
    if engine_probe(comm.engine.c, world_rank(comm, source), comm.context, <int> tag, &envelope,
                    &m):
        return matched(comm, m)
    help_pending(comm.engine, False)
    return None
