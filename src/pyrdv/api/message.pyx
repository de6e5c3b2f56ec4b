# cython: language_level=3, nonecheck=True
"""Messages that a matched probe took out of the queue."""
cimport cython

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.naming cimport name_missing
from pyrdv.api.object_request cimport receive_head, receive_object
from pyrdv.api.owners cimport owner_of
from pyrdv.api.refused cimport refuse_message
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.api.withdrawal cimport withdraw
from pyrdv.engine.calls cimport engine_recv_matched
from pyrdv.engine.state cimport message_t, op_t

from pyrdv.api.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from pyrdv.errors import RequestError


@cython.no_gc_clear
cdef class Message:
    """A message that a matched probe took out of the queue.

    Only its holder can receive it, with `Recv`, `Irecv`, `recv` or `irecv`.

    Parameters
    ----------
    message : Message, optional
        Makes another handle of the same message; a null message when not given.

    Attributes
    ----------
    source : int
        Rank of the sender in the communicator.
    tag : int
    nbytes : int
        Size in bytes; of an object, of its head.
    no_proc : bool
        Whether it is the empty message that `PROC_NULL` sends.
    """

    # Not __init__, which can be called again: that would make a live message another one.
    def __cinit__(self, Message message=None):
        if message is None:
            return
        self.no_proc = message.no_proc
        self.origin = message if message.origin is None else message.origin
        self.comm = message.comm
        self.source, self.tag, self.nbytes = message.source, message.tag, message.nbytes

    @classmethod
    def from_no_process(cls):
        """The message of `PROC_NULL` that is never used up: ``MESSAGE_NO_PROC``."""
        cdef Message made = cls()
        made.no_proc = made.constant = True
        return made

    def __bool__(self):
        return self.m != NULL or self.no_proc or self.origin is not None and self.origin.m != NULL

    def __eq__(self, other):
        if not isinstance(other, Message):
            return NotImplemented
        if not self or not other:
            return not self and not other
        if self.no_proc or (<Message> other).no_proc:
            return self.no_proc == (<Message> other).no_proc
        return (self.origin or self) is ((<Message> other).origin or other)

    def __hash__(self):
        if not self or self.no_proc:
            return hash(self.no_proc)
        return id(self.origin or self)

    def __reduce__(self):
        raise RequestError("a message cannot be pickled: it waits in this process to be received")

    def __repr__(self):
        if self.no_proc:
            return "<Message: from PROC_NULL>"
        if self.m == NULL:
            return "<Message: null>"
        return f"<Message: {self.nbytes} bytes from rank {self.source}, tag {self.tag}>"

    def __dealloc__(self):
        # The sender may be waiting: take the message and throw it away.
        if self.m != NULL:
            refuse_message(self.comm, self.m)

    cdef bint take_nothing(self):
        nothing = self.no_proc
        if not self.constant:
            self.no_proc = False
        return nothing

    cdef int take(self, message_t **m) except -1:
        if self.origin is not None:
            return self.origin.take(m)
        if self.m == NULL:
            raise RequestError("this message was received already, or is MESSAGE_NULL; "
                               "each Mprobe gives one message to receive")
        self.comm.ready()
        m[0] = self.m
        self.m = NULL
        return 0

    def Irecv(self, buf):
        """Start receiving it into `buf`; returns a `Request`."""
        cdef message_t *m = NULL
        cdef op_t *op = NULL
        cdef span at
        cdef Message kept
        cdef Request request = Request.__new__(Request)
        keeper = acquire(buf, True, &at)
        if self.take_nothing():
            request.start(self.comm, NULL, None, True)
            request.source = PROC_NULL
            return request
        self.take(&m)
        error = engine_recv_matched(self.comm.engine.c, m, at.address, at.nbytes,
                                    owner_of(self.comm.engine, keeper, &at), &op)
        if error:
            kept = self if self.origin is None else self.origin
            kept.m = m
            raise self.comm.failure(-error, self.source, self.tag, self.nbytes, at.nbytes)
        request.start(self.comm, op, keeper, True)
        return request

    def Recv(self, buf, Status status=None):
        """Receive it into `buf`; fills `status`."""
        cdef Request request = self.Irecv(buf)
        try:
            request.block()
        except BaseException:
            withdraw(request)
            raise
        request.report(status)

    def irecv(self):
        """Start receiving the object in it; ``wait()`` of the request returns the object."""
        cdef message_t *m = NULL
        if self.take_nothing():
            return receive_object(self.comm, NULL)
        self.take(&m)
        return receive_head(self.comm, m)

    def recv(self, Status status=None):
        """Receive the object in it and return it."""
        return self.irecv().wait(status)

    @classmethod
    def Probe(cls, comm, source=ANY_SOURCE, tag=ANY_TAG, Status status=None):
        """`Comm.Mprobe` of `comm`."""
        return comm.Mprobe(source, tag, status)

    @classmethod
    def Iprobe(cls, comm, source=ANY_SOURCE, tag=ANY_TAG, Status status=None):
        """`Comm.Improbe` of `comm`."""
        return comm.Improbe(source, tag, status)

    probe = Probe
    iprobe = Iprobe


name_missing(Message)
