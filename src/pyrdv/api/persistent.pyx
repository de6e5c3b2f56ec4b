# cython: language_level=3, nonecheck=True
"""Persistent requests, and several operations as one request.

A persistent request keeps the arguments of a call.  `Prequest.Start` makes an
ordinary request of them, its *origin*, and stands for it until that has been
waited for; then it is inactive, which is not the same as null, and may be
started again.
"""
cimport cython

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.core cimport ANY_SOURCE_, ANY_TAG_NUMBER, CommBase
from pyrdv.api.naming cimport name_missing
from pyrdv.api.request cimport Request
from pyrdv.api.request_lists cimport requests_of
from pyrdv.api.status cimport Status
from pyrdv.api.withdrawal cimport take_back

from pyrdv.api import buffered
from pyrdv.errors import RequestError


@cython.no_gc_clear
cdef class Prequest(Request):
    """A persistent request: a communication that can be started again and again.

    Parameters
    ----------
    request : Prequest, optional
        Makes another handle of the same one; a null request when not given.
    """

    def __cinit__(self, Request request=None):
        if request is not None:
            root = request.root()
            if not isinstance(root, Prequest):
                raise TypeError(f"a Prequest is made from a Prequest, not {type(root).__name__}")
            self.twin = self.origin = root

    cdef Request root(self):
        return self if self.twin is None else self.twin

    cdef bint null(self):
        return not self.made if self.twin is None else self.twin.null()

    cdef int report(self, Status status) except -1:
        cdef Request done = self.origin
        if self.twin is None:
            self.origin = None
        if done is not None:
            return done.report(status)
        if status is not None:
            status.set(ANY_SOURCE_, ANY_TAG_NUMBER, 0, 0)
        return 0

    def Start(self):
        """Start it.

        Raises
        ------
        RequestError
            It is null, or active: wait for it first.
        """
        if self.twin is not None:
            self.twin.Start()
            return
        self.startable()
        self.origin = (<PersistentMessages> self.comm).begin(self)

    cdef int startable(self) except -1:
        if not self.made:
            raise RequestError("a null request cannot be started; make one with Send_init or "
                               "Recv_init")
        if self.pending():
            raise RequestError(f"this persistent request (peer {self.peer}, tag {self.match_tag}) "
                               "is active; wait for it before it is started again")
        return 0

    cdef int examine(self, uint32_t count) except -1:
        """One of `count` that are to be started at once: raise what is wrong before any is."""
        self.startable()
        self.comm.ready()
        if self.kind != START_RECV:
            (<PersistentMessages> self.comm).prepare_several(self.peer, count)
        return 0

    @classmethod
    def Startall(cls, requests):
        """Start all of them, in order.

        Raises
        ------
        RequestError
            One is null, or active.
        ResourceError
            One lacks something.  Those that were started before are inactive again, but for sends
            that have left and receives that have met their message: these stay active.
        """
        cdef Request request
        cdef tuple given = requests_of(requests)
        for i, request in enumerate(given):
            if not isinstance(request, Prequest):
                raise TypeError(f"requests[{i}] is a {type(request).__name__}, not a Prequest: "
                                "only persistent requests can be started")
        for request in given:
            (<Prequest> request.root()).examine(len(given))
        started = []
        try:
            for request in given:
                (<Prequest> request).Start()
                started.append(request)
        except BaseException:
            for request in reversed(started):
                take_back(request)
            raise

    def Free(self):
        """Become null.  What was started goes on; its buffer stays alive."""
        if self.twin is not None:
            self.twin.Free()
            return
        if self.origin is not None:
            self.origin.Free()
        self.origin = None
        self.made = False
        self.buf = None


@cython.no_gc_clear
cdef class Together(Request):
    """The request of a receive, or of nothing, and of other requests that are waited for too."""

    cdef bint poll(self) except -1:
        cdef Request other
        if not Request.poll(self):
            return False
        for other in self.others:
            if not other.poll():
                return False
            self.error = self.error or other.error
        return True

    cdef int block(self) except -1:
        cdef Request other
        Request.block(self)
        for other in self.others:
            other.block()
            self.error = self.error or other.error
        return 0

    def Free(self):
        """Forget all of them; each goes on, its buffer stays alive."""
        self.others = []
        Request.Free(self)


cdef Request all_of(CommBase comm, list requests):
    cdef Together made = Together.__new__(Together)
    made.start(comm, NULL, None, False)
    made.others = requests
    return made


def completed(CommBase comm not None):
    """A request that is complete already."""
    return all_of(comm, [])


cdef class PersistentMessages(ProbedMessages):
    """Messages that are described once and sent many times, and those that go both ways."""

    cdef Request begin(self, Prequest request):
        if request.kind == START_RECV:
            return self.Irecv(request.buf, request.peer, request.match_tag)
        if request.kind == START_BSEND:
            return self.Ibsend(request.buf, request.peer, request.match_tag)
        return self.post_send(request.buf, request.peer, request.match_tag,
                              request.kind == START_SSEND)

    cdef Prequest prepare(self, start_kind kind, object buf, long long peer, long long tag):
        cdef span at
        cdef Prequest request = Prequest.__new__(Prequest)
        if kind == START_RECV:
            self.check_receive(peer, tag)
        else:
            self.check_send(peer, tag)
        # Wrong arguments are told here; the export is taken anew by each start.
        acquire(buf, kind == START_RECV, &at)
        request.comm = self
        request.kind = kind
        request.buf = buf
        request.peer = peer
        request.match_tag = tag
        request.made = True
        return request

    def Send_init(self, buf, long long dest, long long tag=0):
        """A persistent `Send`; arguments and errors are those of `Isend`."""
        return self.prepare(START_SEND, buf, dest, tag)

    def Ssend_init(self, buf, long long dest, long long tag=0):
        """A persistent `Ssend`."""
        return self.prepare(START_SSEND, buf, dest, tag)

    def Bsend_init(self, buf, long long dest, long long tag=0):
        """A persistent `Bsend`."""
        return self.prepare(START_BSEND, buf, dest, tag)

    def Rsend_init(self, buf, long long dest, long long tag=0):
        """A persistent `Rsend`, with the promise that the receive is posted (not needed here)."""
        return self.prepare(START_SEND, buf, dest, tag)

    def Recv_init(self, buf, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER):
        """A persistent `Recv`; arguments and errors are those of `Irecv`."""
        return self.prepare(START_RECV, buf, source, tag)

    def Isendrecv(self, sendbuf, long long dest, long long sendtag=0, recvbuf=None,
                  long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER):
        """Start sending and receiving at once, as one request; buffers must not overlap.

        Raises
        ------
        ResourceError
            One half lacks something; nothing was started.
        """
        cdef span at
        cdef Together request
        cdef Request send
        acquire(sendbuf, False, &at)
        acquire(recvbuf, True, &at)
        self.check_receive(source, recvtag)
        self.check_send(dest, sendtag)
        # First what can fail: a message that is received cannot be given back.
        self.prepare_several(dest, 2)
        request = Together.__new__(Together)
        send = self.post_send(sendbuf, dest, sendtag, False)
        request.others = [send]
        try:
            self.receive(request, recvbuf, source, recvtag)
        except BaseException:
            send.Cancel()
            raise
        return request

    def Isendrecv_replace(self, buf, long long dest, long long sendtag=0,
                          long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER):
        """Start sending a copy of `buf` and receiving another message into it."""
        cdef span at
        _keeper = acquire(buf, True, &at)
        return self.Isendrecv((<char *> at.address)[:at.nbytes], dest, sendtag, buf, source,
                              recvtag)

    def Iflush_buffer(self):
        """A request that is complete when the buffered sends so far are."""
        self.ready()
        return all_of(self, buffered.pool_of(self.identity).requests())


name_missing(Prequest)
