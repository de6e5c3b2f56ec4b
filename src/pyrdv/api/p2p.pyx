# cython: language_level=3, nonecheck=True
"""Messages of buffers."""
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.core cimport PROC_NULL_, CommBase
from pyrdv.api.owners cimport owner_of
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.api.withdrawal cimport take_back, withdraw
from pyrdv.engine.calls cimport (
    SEND_WAITS, engine_cancel, engine_prepare, engine_recv, engine_release, engine_send)
from pyrdv.engine.state cimport ANY_PEER, OP_RECV, op_t
from pyrdv.engine.wire cimport CONTENT_BUFFER
from pyrdv.progress.waiting cimport wait

from functools import partial
from threading import active_count

from pyrdv.api.buffered import pool_for
from pyrdv.errors import DeadlockError, InvalidBufferError, NoMemoryError, ResourceError
from pyrdv.progress.waiting import wait_until

# How long a blocking call that sends and receives waits for its first connection before it
# receives, seconds: a resource that is lacking shows within milliseconds.
REACH_S = 1.0


cdef inline Request begin(CommBase comm, object buf, long long dest, long long tag, int how):
    cdef span at
    cdef op_t *op = NULL
    cdef int result
    cdef Request request
    comm.check_send(dest, tag)
    keeper = acquire(buf, False, &at)
    if dest == PROC_NULL_:
        return None
    result = engine_send(comm.engine.c, comm.members.to_world(<int> dest), comm.context,
                         <int32_t> tag, at.address, at.nbytes, how,
                         owner_of(comm.engine, keeper, &at), &op)
    if result == 0:
        return None
    if result < 0:
        raise comm.failure(-result, <int> dest, <int> tag, at.nbytes, at.nbytes)
    request = Request.__new__(Request)
    request.start(comm, op, keeper, False)
    return request


cdef Request begin_send(CommBase comm, object buf, long long dest, long long tag, int how):
    return begin(comm, buf, dest, tag, how)


cdef Request post_send(CommBase comm, object buf, long long dest, long long tag, int how):
    cdef Request request = begin(comm, buf, dest, tag, how)
    if request is None:
        request = Request.__new__(Request)
        request.start(comm, NULL, None, False)
    return request


cdef Request post_buffered(CommBase comm, object buf, long long dest, long long tag, int how):
    cdef span at
    cdef Request done = Request.__new__(Request)
    comm.check_send(dest, tag)
    acquire(buf, False, &at)
    done.start(comm, NULL, None, False)
    if dest != PROC_NULL_:
        pool = pool_for(comm)
        pool.reserve(at.nbytes)
        pool.note(post_send(comm, (<char *> at.address)[:at.nbytes], dest, tag, how), at.nbytes)
    return done


cdef int finish_send(CommBase comm, Request request, long long dest, long long tag) except -1:
    if dest >= 0 and comm.members.to_world(<int> dest) == comm.engine.c.rank \
            and not request.poll() and active_count() == 1:
        engine_cancel(comm.engine.c, request.op)
        raise DeadlockError(
            f"rank {dest} sends {request.op.length} bytes with tag {tag} to itself and waits "
            "for a receive that no other thread can post; post it first with Irecv, or use "
            "Isend or Sendrecv", rank=dest, tag=tag)
    try:
        request.block()
    except ResourceError:
        # The caller sends it again, so it must not go by itself, nor what stands behind it.
        request.Cancel()
        raise
    request.report(None)
    return 0


cdef int send(CommBase comm, object buf, long long dest, long long tag, int how) except -1:
    cdef Request request = begin(comm, buf, dest, tag, how | SEND_WAITS)
    return 0 if request is None else finish_send(comm, request, dest, tag)


cdef bint prepare_several(CommBase comm, long long dest, uint32_t count) except? True:
    cdef int result
    if dest == PROC_NULL_:
        return False
    result = engine_prepare(comm.engine.c, comm.members.to_world(<int> dest), count)
    if result < 0:
        raise comm.failure(-result, <int> dest, 0, 0, 0)
    return result


def _connected(CommBase comm not None, long long dest):
    return not prepare_several(comm, dest, 2)


cdef int reach(CommBase comm, long long dest, long long tag) except -1:
    """A message that was received cannot be given back when the send is refused later.  So what a
    connection lacks has to be known before anything starts, and much of it shows only on the way.
    The wait is bounded: whoever sends to this rank may be what the other one waits for.
    """
    comm.check_send(dest, tag)
    if prepare_several(comm, dest, 2):
        wait_until(comm.engine, partial(_connected, comm, dest), REACH_S)
    return 0


cdef inline op_t *begin_recv(CommBase comm, object buf, long long source, long long tag, bint waits,
                             void **keeper) except? NULL:
    """Check and post a receive; NULL: from PROC_NULL.  The caller owns `keeper`."""
    cdef span at
    cdef op_t *op = NULL
    cdef int error
    comm.check_receive(source, tag)
    held = acquire(buf, True, &at)
    if source == PROC_NULL_:
        return NULL
    error = engine_recv(comm.engine.c, OP_RECV,
                        ANY_PEER if source < 0 else comm.members.to_world(<int> source),
                        comm.context, <int32_t> tag, at.address, at.nbytes, waits,
                        owner_of(comm.engine, held, &at), &op)
    if error:
        raise comm.failure(-error, <int> source, <int> tag, 0, at.nbytes)
    Py_INCREF(held)
    keeper[0] = <void *> held
    return op


cdef inline Request receive_by(CommBase comm, Request request, op_t *op, void *keeper):
    """Make `request` that of what begin_recv returned; takes over `keeper`."""
    request.start(comm, op, None, True)
    if op == NULL:
        request.source = PROC_NULL_
    else:
        request.keeper = <object> keeper
        Py_DECREF(<object> keeper)
    return request


cdef int post_recv_as(CommBase comm, Request request, object buf, long long source, long long tag,
                      bint waits) except -1:
    cdef void *keeper = NULL
    cdef op_t *op = begin_recv(comm, buf, source, tag, waits, &keeper)
    receive_by(comm, request, op, keeper)
    return 0


cdef Request post_recv(CommBase comm, object buf, long long source, long long tag, bint waits):
    cdef void *keeper = NULL
    cdef op_t *op = begin_recv(comm, buf, source, tag, waits, &keeper)
    return receive_by(comm, Request.__new__(Request), op, keeper)


cdef int receive(CommBase comm, object buf, long long source, long long tag,
                 Status status) except -1:
    cdef void *keeper = NULL
    cdef op_t *op = begin_recv(comm, buf, source, tag, True, &keeper)
    cdef Request request
    if op != NULL:
        try:
            wait(comm.engine, op, op.generation)
        except BaseException:
            withdraw(receive_by(comm, Request.__new__(Request), op, keeper))
            raise
        if op.error == 0 and op.content == CONTENT_BUFFER:
            # The common case needs no request.
            if status is not None:
                status.set(comm.from_world(op.source), op.source_tag, op.total, 0)
            engine_release(comm.engine.c, op)
            Py_DECREF(<object> keeper)
            return 0
    request = receive_by(comm, Request.__new__(Request), op, keeper)
    request.settle()
    request.report(status)
    return 0


cdef int sendrecv(CommBase comm, object sendbuf, long long dest, long long sendtag, object recvbuf,
                  long long source, long long recvtag, Status status) except -1:
    cdef span out
    cdef span room
    cdef Request request
    acquire(sendbuf, False, &out)
    acquire(recvbuf, True, &room)
    if out.address < room.address + room.nbytes and room.address < out.address + out.nbytes:
        raise InvalidBufferError(
            f"send buffer ({out.nbytes} bytes) and receive buffer ({room.nbytes} bytes) of "
            "Sendrecv overlap; use Sendrecv_replace, or separate memory")
    comm.check_receive(source, recvtag)
    reach(comm, dest, sendtag)
    request = post_recv(comm, recvbuf, source, recvtag, True)
    try:
        send(comm, sendbuf, dest, sendtag, 0)
        request.block()
    except BaseException as error:
        withdraw(request)
        if isinstance(error, (ResourceError, NoMemoryError)) and source != PROC_NULL_ \
                and not request.error:
            error.received = recvbuf
        raise
    request.report(status)
    return 0


cdef int sendrecv_replace(CommBase comm, object buf, long long dest, long long sendtag,
                          long long source, long long recvtag, Status status) except -1:
    cdef span at
    cdef Request request
    _keeper = acquire(buf, True, &at)
    comm.check_receive(source, recvtag)
    reach(comm, dest, sendtag)
    copy = (<char *> at.address)[:at.nbytes]
    request = post_send(comm, copy, dest, sendtag, 0)
    try:
        receive(comm, buf, source, recvtag, status)
    except (ResourceError, NoMemoryError):
        request.Cancel()
        raise
    try:
        request.block()
    except ResourceError as error:
        if take_back(request):
            error.received = (<char *> at.address)[:at.nbytes]
            memcpy(at.address, <const char *> copy, at.nbytes)
        raise
    request.report(None)
    return 0
