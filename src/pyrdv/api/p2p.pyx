# cython: language_level=3, nonecheck=True
"""Point-to-point messages of buffers: the capitalized methods."""
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.core cimport ANY_SOURCE_, ANY_TAG_NUMBER, PROC_NULL_, CommBase
from pyrdv.api.message cimport Message
from pyrdv.api.owners cimport owner_of
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.api.withdrawal cimport take_back, withdraw
from pyrdv.engine.calls cimport (
    SEND_SYNC, SEND_WAITS, engine_cancel, engine_prepare, engine_probe, engine_recv, engine_release,
    engine_send, envelope_t)
from pyrdv.engine.lacking cimport complain_source
from pyrdv.engine.state cimport ANY_PEER, OP_RECV, message_t, op_t
from pyrdv.engine.wire cimport CONTENT_BUFFER
from pyrdv.progress.polling cimport help_pending, wait

from threading import active_count

from pyrdv.errors import DeadlockError, InvalidBufferError, NoMemoryError, ResourceError
from pyrdv.progress.polling import wait_until

# How long a blocking call that sends and receives waits for its first connection before it
# receives, seconds: a resource that is lacking shows within milliseconds.
REACH_S = 1.0


cdef inline void receive_by(CommBase comm, Request request, op_t *op, void *keeper):
    """Make `request` that of what post_recv returned; takes over `keeper`."""
    request.start(comm, op, None, True)
    if op == NULL:
        request.source = PROC_NULL_
    else:
        request.keeper = <object> keeper
        Py_DECREF(<object> keeper)


def reach(BufferMessages comm not None, long long dest, long long tag):
    """Before a blocking call sends and receives: raise what the send lacks.

    A message that was received cannot be given back when the send is refused later.  So what a
    connection lacks has to be known before anything starts, and much of it shows only on the way.
    The wait is bounded: whoever sends to this rank may be what the other one waits for.
    """
    comm.check_send(dest, tag)
    if comm.prepare_several(dest, 2):
        wait_until(comm.engine, lambda: not comm.prepare_several(dest, 2), REACH_S)


cdef class BufferMessages(CommBase):
    """Messages of NumPy arrays and other buffers.

    A buffer is given as ``buf``, ``[buf, type]``, ``[buf, count]`` or
    ``[buf, count, type]``; see `pyrdv.api.buffers`.
    """

    cdef Request post_send(self, object buf, long long dest, long long tag, int how):
        cdef span at
        cdef op_t *op = NULL
        cdef int result
        cdef Request request
        self.check_send(dest, tag)
        keeper = acquire(buf, False, &at)
        request = Request.__new__(Request)
        if dest == PROC_NULL_:
            request.start(self, NULL, None, False)
            return request
        result = engine_send(self.engine.c, self.members.to_world(<int> dest), self.context,
                             <int32_t> tag, at.address, at.nbytes, how,
                             owner_of(self.engine, keeper, &at), &op)
        if result < 0:
            raise self.failure(-result, <int> dest, <int> tag, at.nbytes, at.nbytes)
        request.start(self, op, keeper, False)
        return request

    cdef bint prepare_several(self, long long dest, uint32_t count) except? True:
        cdef int result
        if dest == PROC_NULL_:
            return False
        result = engine_prepare(self.engine.c, self.members.to_world(<int> dest), count)
        if result < 0:
            raise self.failure(-result, <int> dest, 0, 0, 0)
        return result

    def Isend(self, buf, long long dest, long long tag=0):
        """Start sending `buf` to `dest`.

        Parameters
        ----------
        buf : buffer specification
            Must not change until the request is complete.
        dest : int
            Rank in this communicator, or `PROC_NULL`.
        tag : int
            0 … `TAG_UB`.

        Returns
        -------
        Request

        Raises
        ------
        RankError, TagError, InvalidBufferError, CountError, DatatypeError
            An argument is wrong; nothing was sent.
        PeerLostError
            The destination is gone.
        """
        return self.post_send(buf, dest, tag, 0)

    def Issend(self, buf, long long dest, long long tag=0):
        """`Isend` whose request completes only once the receive was matched."""
        return self.post_send(buf, dest, tag, SEND_SYNC)

    def Irsend(self, buf, long long dest, long long tag=0):
        """`Isend`, with the promise that the receive is posted (not needed here)."""
        return self.post_send(buf, dest, tag, 0)

    def Send(self, buf, long long dest, long long tag=0):
        """Send `buf` to `dest`; returns when the buffer may be changed again.

        Small messages are handed over at once; a large one waits for its
        receive.  Arguments and errors are those of `Isend`.
        """
        cdef span at
        cdef op_t *op = NULL
        cdef int result
        cdef Request request
        self.check_send(dest, tag)
        keeper = acquire(buf, False, &at)
        if dest == PROC_NULL_:
            return
        result = engine_send(self.engine.c, self.members.to_world(<int> dest), self.context,
                             <int32_t> tag, at.address, at.nbytes, SEND_WAITS,
                             owner_of(self.engine, keeper, &at), &op)
        if result == 0:
            return
        if result < 0:
            raise self.failure(-result, <int> dest, <int> tag, at.nbytes, at.nbytes)
        request = Request.__new__(Request)
        request.start(self, op, keeper, False)
        self.finish_send(request, dest, tag)

    cdef int finish_send(self, Request request, long long dest, long long tag) except -1:
        """Wait for a send.  Interrupted, the request is dropped: the engine keeps the buffer
        until the message has left.  Refused for want of something, it is taken back."""
        if dest >= 0 and self.members.to_world(<int> dest) == self.engine.c.rank \
                and not request.poll() and active_count() == 1:
            engine_cancel(self.engine.c, request.op)
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

    def Ssend(self, buf, long long dest, long long tag=0):
        """Send `buf`; returns once the receive was matched and the buffer is free."""
        self.finish_send(self.post_send(buf, dest, tag, SEND_SYNC | SEND_WAITS), dest, tag)

    def Rsend(self, buf, long long dest, long long tag=0):
        """`Send`, with the promise that the receive is posted (not needed here)."""
        self.Send(buf, dest, tag)

    cdef op_t *post_recv(self, object buf, long long source, long long tag, bint waits,
                         span *at, void **keeper) except? NULL:
        """Check and post a receive; NULL: from PROC_NULL.  The caller owns `keeper`."""
        cdef op_t *op = NULL
        cdef int error
        self.check_receive(source, tag)
        held = acquire(buf, True, at)
        if source == PROC_NULL_:
            return NULL
        error = engine_recv(self.engine.c, OP_RECV,
                            ANY_PEER if source < 0 else self.members.to_world(<int> source),
                            self.context, <int32_t> tag, at.address, at.nbytes, waits,
                            owner_of(self.engine, held, at), &op)
        if error:
            raise self.failure(-error, <int> source, <int> tag, 0, at.nbytes)
        Py_INCREF(held)
        keeper[0] = <void *> held
        return op

    cdef Request request_of(self, op_t *op, void *keeper):
        """A request for what post_recv returned; takes over `keeper`."""
        cdef Request request = Request.__new__(Request)
        receive_by(self, request, op, keeper)
        return request

    def Irecv(self, buf, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER):
        """Start receiving into `buf`.

        Parameters
        ----------
        buf : buffer specification
            Writable; at least as large as the message.
        source : int
            Rank, `ANY_SOURCE` or `PROC_NULL`.
        tag : int
            Tag or `ANY_TAG`.

        Returns
        -------
        Request
        """
        cdef span at
        cdef void *keeper = NULL
        cdef op_t *op = self.post_recv(buf, source, tag, False, &at, &keeper)
        return self.request_of(op, keeper)

    def Recv(self, buf, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
             Status status=None):
        """Receive into `buf`; returns when the data is there.

        Parameters
        ----------
        buf : buffer specification
        source, tag : int
            As for `Irecv`.
        status : Status, optional
            Filled with source, tag and size.

        Raises
        ------
        TruncationError
            The message is longer than `buf`.
        MessageKindError
            It is an object, sent by `send` or its like; what `buf` holds now means nothing.
        PeerLostError
            The source is gone.
        KeyboardInterrupt or what a signal handler raises
            The receive is withdrawn; if its message was matched already, the
            data has landed in `buf`.
        """
        cdef span at
        cdef void *keeper = NULL
        cdef op_t *op = self.post_recv(buf, source, tag, True, &at, &keeper)
        cdef Request request
        if op != NULL:
            try:
                wait(self.engine, op, op.generation)
            except BaseException:
                withdraw(self.request_of(op, keeper))
                raise
            if op.error == 0 and op.content == CONTENT_BUFFER:
                # The common case needs no request.
                if status is not None:
                    status.set(self.from_world(op.source), op.source_tag, op.total, 0)
                engine_release(self.engine.c, op)
                Py_DECREF(<object> keeper)
                return
        request = self.request_of(op, keeper)
        request.settle()
        request.report(status)

    def Sendrecv(self, sendbuf, long long dest, long long sendtag=0, recvbuf=None,
                 long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER,
                 Status status=None):
        """Send and receive at once, without deadlock; buffers must not overlap.

        Raises
        ------
        ResourceError
            One half lacks something.  The send was taken back if it had not left yet, and the
            receive unless its message had come: then the error's attribute ``received`` is
            `recvbuf`.  So the call, or what is left of it, can be tried again.
        """
        cdef span out
        cdef span room
        acquire(sendbuf, False, &out)
        acquire(recvbuf, True, &room)
        if out.address < room.address + room.nbytes and room.address < out.address + out.nbytes:
            raise InvalidBufferError(
                f"send buffer ({out.nbytes} bytes) and receive buffer ({room.nbytes} bytes) of "
                "Sendrecv overlap; use Sendrecv_replace, or separate memory")
        self.check_receive(source, recvtag)
        reach(self, dest, sendtag)
        cdef void *keeper = NULL
        cdef op_t *op = self.post_recv(recvbuf, source, recvtag, True, &room, &keeper)
        cdef Request receive = self.request_of(op, keeper)
        try:
            self.Send(sendbuf, dest, sendtag)
            receive.block()
        except BaseException as error:
            withdraw(receive)
            if isinstance(error, (ResourceError, NoMemoryError)) and op != NULL \
                    and not receive.error:
                error.received = recvbuf
            raise
        receive.report(status)

    def Sendrecv_replace(self, buf, long long dest, long long sendtag=0,
                         long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER,
                         Status status=None):
        """Send `buf` and receive another message into it.

        Raises
        ------
        ResourceError
            As of `Sendrecv`; `buf` is as it was, and ``received`` is a copy of the message.
        """
        cdef span at
        _keeper = acquire(buf, True, &at)
        self.check_receive(source, recvtag)
        reach(self, dest, sendtag)
        copy = (<char *> at.address)[:at.nbytes]
        cdef Request send = self.post_send(copy, dest, sendtag, 0)
        try:
            self.Recv(buf, source, recvtag, status)
        except (ResourceError, NoMemoryError):
            send.Cancel()
            raise
        try:
            send.block()
        except ResourceError as error:
            if take_back(send):
                error.received = (<char *> at.address)[:at.nbytes]
                memcpy(at.address, <const char *> copy, at.nbytes)
            raise
        send.report(None)

    cdef int receive(self, Request request, object buf, long long source,
                     long long tag) except -1:
        cdef span at
        cdef void *keeper = NULL
        cdef op_t *op = self.post_recv(buf, source, tag, False, &at, &keeper)
        receive_by(self, request, op, keeper)
        return 0

    # --- probes

    cdef Message matched(self, message_t *m):
        cdef Message message = Message.__new__(Message)
        message.comm = self
        message.m = m
        message.no_proc = m == NULL
        if m != NULL:
            message.source = self.from_world(m.peer)
            message.tag = m.tag
            message.nbytes = m.length
        return message

    cdef bint look(self, long long source, long long tag, Status status, message_t **taken):
        cdef envelope_t envelope
        if not engine_probe(self.engine.c,
                            ANY_PEER if source < 0 else self.members.to_world(<int> source),
                            self.context, <int32_t> tag, &envelope, taken):
            help_pending(self.engine, False)
            complain_source(self.engine,
                            ANY_PEER if source < 0 else self.members.to_world(<int> source))
            return False
        if status is not None:
            status.set(self.from_world(envelope.source), envelope.tag, envelope.length, 0)
        return True
