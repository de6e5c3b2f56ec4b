# cython: language_level=3, nonecheck=True
"""Messages of Python objects.  See object_request.pyx."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, uint32_t

from pyrdv.api cimport objects as c_objects, p2p
from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.core cimport CONTEXT_PARTS, PROC_NULL_, CommBase
from pyrdv.api.object_request cimport ObjectRecv, ObjectSend, receive_object
from pyrdv.api.owners cimport named_owner, unname
from pyrdv.api.p2p cimport finish_send, post_send, reach
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport (
    SEND_OBJECT, SEND_PROMISED, SEND_SYNC, engine_recv, engine_send_several, piece_t)
from pyrdv.engine.state cimport ANY_PEER, OP_MATCH, op_t

import warnings

from pyrdv.api import objects
from pyrdv.errors import ResourceError


cdef Request post_object(CommBase comm, object obj, long long dest, long long tag, bint sync,
                         bint returns):
    comm.check_send(dest, tag)
    head, parts = c_objects.dumps(obj)
    if returns and parts and dest != PROC_NULL_:
        parts = c_objects.snapshots(parts)
    return post_pickled(comm, head, parts, dest, tag, sync)


cdef Request post_pickled(CommBase comm, object head, object parts, long long dest, long long tag,
                          bint sync):
    cdef uint32_t cookie
    cdef int kind = SEND_OBJECT | (SEND_SYNC if sync else 0)
    if dest == PROC_NULL_ or not parts:
        return post_send(comm, head, dest, tag, kind)
    comm.identity.cookie = cookie = (comm.identity.cookie + 1) & 0x7FFFFFFF
    c_objects.set_cookie(head, cookie)
    cdef Py_ssize_t count = 1 + len(parts)
    cdef piece_t *pieces = <piece_t *> PyMem_Calloc(count, sizeof(piece_t))
    if pieces == NULL:
        raise MemoryError
    try:
        pieces[0].tag, pieces[0].how = <int32_t> tag, kind
        for i in range(1, count):
            pieces[i].tag, pieces[i].how = <int32_t> cookie, SEND_PROMISED
            pieces[i].context = CONTEXT_PARTS
        return post_pieces(comm, [head, *parts], pieces, dest, tag)
    finally:
        for i in range(count):
            unname(comm.engine, pieces[i].owner)
        PyMem_Free(pieces)


cdef Request post_pieces(CommBase comm, list data, piece_t *pieces, long long dest, long long tag):
    """A receiver that has the head waits for the parts.  So all that can fail comes first."""
    cdef ObjectSend first = ObjectSend.__new__(ObjectSend)
    cdef Request request
    cdef span at
    cdef int result
    cdef Py_ssize_t i
    cdef list keepers = []
    first.others = [Request.__new__(Request) for _ in range(1, len(data))]
    requests = [first, *first.others]
    for i in range(len(data)):
        keepers.append(acquire(data[i], False, &at))
        pieces[i].data, pieces[i].length = at.address, at.nbytes
        pieces[i].context += comm.context
        pieces[i].owner = named_owner(comm.engine, keepers[i], &at)
    result = engine_send_several(comm.engine.c, comm.members.to_world(<int> dest), pieces,
                                 <uint32_t> len(data))
    for i in range(len(data)):
        request = requests[i]
        request.start(comm, pieces[i].op, keepers[i], False)
    if result < 0:
        raise comm.failure(-result, <int> dest, <int> tag, pieces[0].length, pieces[0].length)
    return first


cdef int send(CommBase comm, object obj, long long dest, long long tag, bint sync) except -1:
    """A pickle is ours, so one to this process itself can wait for its receive without its sender,
    like a small message; with large buffers beside it the caller would have to wait, and would
    never come to receive it.
    """
    cdef Request request
    comm.check_send(dest, tag)
    if dest == PROC_NULL_ or comm.members.to_world(<int> dest) != comm.engine.c.rank:
        return finish_send(comm, post_object(comm, obj, dest, tag, sync, False), dest, tag)
    request = post_send(comm, bytes(objects.pickle.dumps(obj)), dest, tag,
                        SEND_OBJECT | (SEND_SYNC if sync else 0))
    if sync and not request.poll() and request.op.message != NULL \
            and request.op.message.queued:
        return finish_send(comm, request, dest, tag)
    return 0


cdef Request post_buffered(CommBase comm, object obj, long long dest, long long tag):
    comm.check_send(dest, tag)
    return p2p.post_buffered(comm, objects.pickle.dumps(obj), dest, tag, SEND_OBJECT)


cdef ObjectRecv post_match(CommBase comm, long long source, long long tag):
    cdef op_t *op = NULL
    comm.check_receive(source, tag)
    if source == PROC_NULL_:
        return receive_object(comm, NULL)
    error = engine_recv(comm.engine.c, OP_MATCH,
                        ANY_PEER if source < 0 else comm.members.to_world(<int> source),
                        comm.context, <int32_t> tag, NULL, 0, False, NULL, &op)
    if error:
        raise comm.failure(-error, <int> source, <int> tag, 0, 0)
    return receive_object(comm, op)


cdef ObjectRecv post_recv(CommBase comm, long long source, long long tag):
    cdef ObjectRecv request = post_match(comm, source, tag)
    request.register()
    return request


cdef object receive(CommBase comm, object buf, long long source, long long tag, Status status):
    if buf is not None:
        warnings.warn("the argument 'buf' of recv is not needed and not used; leave it out",
                      UserWarning, stacklevel=1)
    cdef Request request = post_match(comm, source, tag)
    try:
        request.block()
    except BaseException:
        request.Cancel()
        raise
    request.report(status)
    return request.result()


cdef object sendrecv(CommBase comm, object sendobj, long long dest, long long sendtag,
                     object recvbuf, long long source, long long recvtag, Status status):
    comm.check_receive(source, recvtag)
    reach(comm, dest, sendtag)
    cdef Request request = post_object(comm, sendobj, dest, sendtag, False, False)
    try:
        obj = receive(comm, recvbuf, source, recvtag, status)
    except ResourceError:
        request.Cancel()
        raise
    try:
        request.block()
    except ResourceError as error:
        request.Cancel()
        error.received = obj
        raise
    request.report(None)
    return obj


def isend_pickled(CommBase comm not None, head, list parts, long long dest, long long tag=0):
    """Start sending an object that is pickled already; received like any other.

    Parameters
    ----------
    comm : CommBase
    head : bytes-like
    parts : list
        As from `pyrdv.api.objects.dumps`; not copied.
    dest, tag : int
        As for `Comm.isend`.

    Returns
    -------
    Request
    """
    comm.check_send(dest, tag)
    # Each send writes a cookie of its own into its head.
    return post_pickled(comm, bytearray(head) if parts else head, parts, dest, tag, False)
