# cython: language_level=3, nonecheck=True
"""Messages of Python objects: the lower-case methods.  See object_request.pyx."""
from libc.stdint cimport int32_t, uint32_t

from pyrdv.api cimport objects as c_objects
from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.core cimport ANY_SOURCE_, ANY_TAG_NUMBER, CONTEXT_PARTS, PROC_NULL_
from pyrdv.api.object_request cimport ObjectRecv, ObjectSend, receive_object
from pyrdv.api.owners cimport owner_of
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport engine_recv, engine_send
from pyrdv.engine.state cimport ANY_PEER, OP_MATCH, op_t

import warnings

from pyrdv.api import objects


cdef class ObjectMessages(PersistentMessages):
    """Messages of any Python objects that can be pickled."""

    cdef Request post_object(self, object obj, long long dest, long long tag, bint sync,
                             bint returns):
        self.check_send(dest, tag)
        head, parts = c_objects.dumps(obj)
        if returns and parts and dest != PROC_NULL_:
            parts = c_objects.snapshots(parts)
        return self.post_pickled(head, parts, dest, tag, sync)

    cdef Request post_pickled(self, object head, object parts, long long dest, long long tag,
                              bint sync):
        cdef ObjectSend request
        cdef uint32_t cookie
        if dest == PROC_NULL_ or not parts:
            return self.post_send(head, dest, tag, sync)
        self.identity.cookie = cookie = (self.identity.cookie + 1) & 0x7FFFFFFF
        c_objects.set_cookie(head, cookie)
        request = ObjectSend.__new__(ObjectSend)
        request.others = []
        first = self.post_on(request, head, dest, tag, sync, 0)
        for part in parts:
            request.others.append(self.post_on(Request.__new__(Request), part, dest, cookie,
                                               False, CONTEXT_PARTS))
        return first

    cdef Request post_on(self, Request request, object buf, long long dest, long long tag,
                         bint sync, int context):
        cdef span at
        cdef op_t *op = NULL
        keeper = acquire(buf, False, &at)
        cdef int result = engine_send(self.engine.c, self.members.to_world(<int> dest),
                                      self.context + context, <int32_t> tag, at.address,
                                      at.nbytes, sync, owner_of(self.engine, keeper, &at), &op)
        if result < 0:
            raise self.failure(-result, <int> dest, <int> tag, at.nbytes, at.nbytes)
        request.start(self, op, keeper, False)
        return request

    cdef int send_object(self, object obj, long long dest, long long tag, bint sync) except -1:
        """The blocking sends.

        A pickle is ours, so one to this process itself can wait for its receive without its
        sender, like a small message; with large buffers beside it the caller would have to
        wait, and would never come to receive it.
        """
        cdef Request request
        self.check_send(dest, tag)
        if dest == PROC_NULL_ or self.members.to_world(<int> dest) != self.engine.c.rank:
            return self.finish_send(self.post_object(obj, dest, tag, sync, False), dest, tag)
        request = self.post_send(bytes(objects.pickle.dumps(obj)), dest, tag, sync)
        if sync and not request.poll() and request.op.message != NULL \
                and request.op.message.queued:
            return self.finish_send(request, dest, tag)
        return 0

    def isend(self, obj, long long dest, long long tag=0):
        """Start sending an object.

        Parameters
        ----------
        obj : object
            Anything that pickles.  It may be changed as soon as the call returns: large buffers
            inside it (arrays) are copied, but for those of bytes objects.
        dest : int
            Rank in this communicator, or `PROC_NULL`.
        tag : int
            0 … `TAG_UB`.

        Returns
        -------
        Request
        """
        return self.post_object(obj, dest, tag, False, True)

    def issend(self, obj, long long dest, long long tag=0):
        """`isend` whose request completes only once the receive has started."""
        return self.post_object(obj, dest, tag, True, True)

    def irsend(self, obj, long long dest, long long tag=0):
        """`isend`, with the promise that the receive is posted (not needed here)."""
        return self.post_object(obj, dest, tag, False, True)

    def rsend(self, obj, long long dest, long long tag=0):
        """`send`, with the promise that the receive is posted (not needed here)."""
        self.send_object(obj, dest, tag, False)

    def ibsend(self, obj, long long dest, long long tag=0):
        """`isend`, counted against the attached buffer."""
        self.check_send(dest, tag)
        return self.Ibsend(objects.pickle.dumps(obj), dest, tag)

    def send(self, obj, long long dest, long long tag=0):
        """Send an object; returns when it may be changed again."""
        self.send_object(obj, dest, tag, False)

    def ssend(self, obj, long long dest, long long tag=0):
        """Send an object; returns once its receive has started."""
        self.send_object(obj, dest, tag, True)

    def bsend(self, obj, long long dest, long long tag=0):
        """Send a copy of an object; returns at once."""
        self.ibsend(obj, dest, tag)

    def irecv(self, buf=None, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER):
        """Start receiving an object; ``wait()`` of the request returns it.

        `buf` is there for mpi4py's sake and not needed: sizes are never guessed.
        """
        cdef ObjectRecv request = self.post_match(source, tag)
        request.register()
        return request

    cdef ObjectRecv post_match(self, long long source, long long tag):
        cdef op_t *op = NULL
        self.check_receive(source, tag)
        if source == PROC_NULL_:
            return receive_object(self, NULL)
        error = engine_recv(self.engine.c, OP_MATCH,
                            ANY_PEER if source < 0 else self.members.to_world(<int> source),
                            self.context, <int32_t> tag, NULL, 0, False, NULL, &op)
        if error:
            raise self.failure(-error, <int> source, <int> tag, 0, 0)
        return receive_object(self, op)

    def recv(self, buf=None, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
             Status status=None):
        """Receive an object and return it.

        Parameters
        ----------
        buf : buffer, optional
            There for mpi4py's sake; not needed.
        source, tag : int
            As for `Irecv`.
        status : Status, optional
            Filled with source, tag and the size of the head.

        Warns
        -----
        UserWarning
            A `buf` was given.
        """
        if buf is not None:
            warnings.warn("the argument 'buf' of recv is not needed and not used; leave it out",
                          UserWarning, stacklevel=2)
        cdef Request request = self.post_match(source, tag)
        try:
            request.block()
        except BaseException:
            request.Cancel()
            raise
        request.report(status)
        return request.result()

    def isend_pickled(self, head, list parts, long long dest, long long tag=0):
        """Start sending an object that is pickled already; received like any other.

        Parameters
        ----------
        head : bytes-like
        parts : list
            As from `pyrdv.api.objects.dumps` or `recv_pickled`; not copied.
        dest, tag : int
            As for `isend`.

        Returns
        -------
        Request
        """
        self.check_send(dest, tag)
        # Each send writes a cookie of its own into its head.
        return self.post_pickled(bytearray(head) if parts else head, parts, dest, tag, False)

    def recv_pickled(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER):
        """Receive an object as it travels: ``(head, parts)``, for `isend_pickled`.

        Parameters
        ----------
        source, tag : int
            As for `Irecv`.
        """
        cdef ObjectRecv request = self.post_match(source, tag)
        try:
            request.block()
        except BaseException:
            request.Cancel()
            raise
        request.report(None)
        return request.pieces()

    def sendrecv(self, sendobj, long long dest, long long sendtag=0, recvbuf=None,
                 long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER,
                 Status status=None):
        """Send one object and receive another; returns it."""
        cdef Request send = self.post_object(sendobj, dest, sendtag, False, False)
        obj = self.recv(recvbuf, source, recvtag, status)
        send.block()
        send.report(None)
        return obj
