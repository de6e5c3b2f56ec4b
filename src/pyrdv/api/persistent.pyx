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
from pyrdv.api.p2p cimport (
    post_buffered, post_recv, post_recv_as, post_send, prepare_several)
from pyrdv.api.request cimport Request
from pyrdv.api.request_lists cimport requests_of
from pyrdv.api.status cimport Status
from pyrdv.api.withdrawal cimport take_back
from pyrdv.engine.calls cimport SEND_SYNC

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
        self.origin = self.begin()

    cdef Request begin(self):
        if self.kind == START_RECV:
            return post_recv(self.comm, self.buf, self.peer, self.match_tag, False)
        if self.kind == START_BSEND:
            return post_buffered(self.comm, self.buf, self.peer, self.match_tag, 0)
        return post_send(self.comm, self.buf, self.peer, self.match_tag,
                         SEND_SYNC if self.kind == START_SSEND else 0)

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
            prepare_several(self.comm, self.peer, count)
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


cdef Prequest prepare(CommBase comm, start_kind kind, object buf, long long peer, long long tag):
    cdef span at
    cdef Prequest request = Prequest.__new__(Prequest)
    if kind == START_RECV:
        comm.check_receive(peer, tag)
    else:
        comm.check_send(peer, tag)
    # Wrong arguments are told here; the export is taken anew by each start.
    acquire(buf, kind == START_RECV, &at)
    request.comm = comm
    request.kind = kind
    request.buf = buf
    request.peer = peer
    request.match_tag = tag
    request.made = True
    return request


cdef Request isendrecv(CommBase comm, object sendbuf, long long dest, long long sendtag,
                       object recvbuf, long long source, long long recvtag):
    cdef span at
    cdef Together request
    cdef Request send
    acquire(sendbuf, False, &at)
    acquire(recvbuf, True, &at)
    comm.check_receive(source, recvtag)
    comm.check_send(dest, sendtag)
    # First what can fail: a message that is received cannot be given back.
    prepare_several(comm, dest, 2)
    request = Together.__new__(Together)
    send = post_send(comm, sendbuf, dest, sendtag, 0)
    request.others = [send]
    try:
        post_recv_as(comm, request, recvbuf, source, recvtag, False)
    except BaseException:
        send.Cancel()
        raise
    return request


cdef Request isendrecv_replace(CommBase comm, object buf, long long dest, long long sendtag,
                               long long source, long long recvtag):
    cdef span at
    _keeper = acquire(buf, True, &at)
    return isendrecv(comm, (<char *> at.address)[:at.nbytes], dest, sendtag, buf, source, recvtag)


name_missing(Prequest)
