# cython: language_level=3, nonecheck=True
"""Messages of Python objects: the lower-case methods.  See object_request.pyx."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, uint32_t

from pyrdv.api cimport objects as c_objects
from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.core cimport ANY_SOURCE_, ANY_TAG_NUMBER, CONTEXT_PARTS, PROC_NULL_
from pyrdv.api.object_request cimport ObjectRecv, ObjectSend, receive_object
from pyrdv.api.owners cimport named_owner, unname
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport (
    SEND_OBJECT, SEND_PROMISED, SEND_SYNC, engine_recv, engine_send_several, piece_t)
from pyrdv.engine.state cimport ANY_PEER, OP_MATCH, op_t

import warnings

from pyrdv.api import objects
from pyrdv.api.p2p import reach
from pyrdv.errors import ResourceError


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
        cdef uint32_t cookie
        cdef int kind = SEND_OBJECT | (SEND_SYNC if sync else 0)
        if dest == PROC_NULL_ or not parts:
            return self.post_send(head, dest, tag, kind)
        self.identity.cookie = cookie = (self.identity.cookie + 1) & 0x7FFFFFFF
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
            return self.post_pieces([head, *parts], pieces, dest, tag)
        finally:
            for i in range(count):
                unname(self.engine, pieces[i].owner)
            PyMem_Free(pieces)

    cdef Request post_pieces(self, list data, piece_t *pieces, long long dest, long long tag):
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
            pieces[i].context += self.context
            pieces[i].owner = named_owner(self.engine, keepers[i], &at)
        result = engine_send_several(self.engine.c, self.members.to_world(<int> dest), pieces,
                                     <uint32_t> len(data))
        for i in range(len(data)):
            request = requests[i]
            request.start(self, pieces[i].op, keepers[i], False)
        if result < 0:
            raise self.failure(-result, <int> dest, <int> tag, pieces[0].length,
                               pieces[0].length)
        return first

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
        request = self.post_send(bytes(objects.pickle.dumps(obj)), dest, tag,
                                 SEND_OBJECT | (SEND_SYNC if sync else 0))
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
        return self.post_buffered(objects.pickle.dumps(obj), dest, tag, SEND_OBJECT)

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

        Raises
        ------
        MessageKindError
            The message is a buffer that holds no pickle, sent by `Send` or its like; it is gone.
        PeerLostError
            The source is gone.

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
        """Send one object and receive another; returns it.

        Raises
        ------
        ResourceError
            One half lacks something.  The send was taken back if it had not left yet, and the
            receive unless its message had come: then ``received`` of the error is the object.
        """
        self.check_receive(source, recvtag)
        reach(self, dest, sendtag)
        cdef Request send = self.post_object(sendobj, dest, sendtag, False, False)
        try:
            obj = self.recv(recvbuf, source, recvtag, status)
        except ResourceError:
            send.Cancel()
            raise
        try:
            send.block()
        except ResourceError as error:
            send.Cancel()
            error.received = obj
            raise
        send.report(None)
        return obj
