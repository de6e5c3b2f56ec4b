# cython: language_level=3
"""The messages of one collective call.

What must hold:

1. A call has a tag of its own: its kind, and its number among the calls of that kind on the
   communicator.  So what one call leaves behind never meets another, and calls of two kinds never
   take each other's messages.
2. Whoever waits in a call also sees alarms, by which others say that a call has failed: messages
   under `ALARM`.  A rank that sends one owes nothing to that call any more.
3. A block has exactly the length that its receiver expects, or it is an error.
4. Nobody writes into memory of the user once the call has raised (see `withdraw`).
"""
cimport cython

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.communicator cimport Comm
from pyrdv.api.core cimport CALLS, KINDS
from pyrdv.api.object_messages cimport post_match
from pyrdv.api.object_request cimport ObjectRecv
from pyrdv.api.p2p cimport begin_send, post_recv, post_send
from pyrdv.api.request cimport Request
from pyrdv.engine.calls cimport (
    LARGE, SEND_PATIENT, SEND_WAITS, engine_forsake, engine_wanted)
from pyrdv.engine.state cimport OP_POSTED, OP_READY, OP_TRUNCATED, OP_WRITING
from pyrdv.progress.pausing cimport patience_looks, patience_reset, patience_t
from pyrdv.progress.waiting cimport bell_rings, wait_beside, wait_turn

from pyrdv.api.object_messages import isend_pickled
from pyrdv.errors import CountError, InternalError, PeerLostError, TruncationError

#: Tag of alarms.
ALARM = ALARM_TAG

cdef bytes TOKEN = b""


def alarm(Comm view not None, data, int dest):
    """Send an alarm.  Where the connection lacks something, the alarm waits for that."""
    post_send(view, data, dest, ALARM, SEND_PATIENT).Free()


def tag_of(kind, number):
    """Tag of the messages of call `number` of a kind."""
    return kind * CALLS + number % CALLS


def kind_and_number(tag):
    """What `tag_of` was given; None if it was nothing that a call can have."""
    kind, number = divmod(tag, CALLS)
    return (kind, number) if 0 <= kind < KINDS else None


@cython.no_gc_clear     # what it holds of its communicator is given back last
cdef class Call:
    """One collective call of this process.

    Parameters
    ----------
    comm : Comm
    kind : int
        Less than 64.  The same operation has the same kind on all ranks.

    Raises
    ------
    CommunicatorError, FinalizedError, ForkedError
        The communicator cannot be used.

    A subclass says in `alarmed` what an alarm means.
    """

    def __init__(self, Comm comm, int kind):
        comm.ready()
        self.view = comm.collective()
        self.rank = comm.members.rank
        self.size = comm.members.size
        self.kind = kind
        self.number = comm.identity.begun[kind] % CALLS
        self.tag = kind * CALLS + self.number
        comm.identity.begun[kind] = (self.number + 1) % CALLS
        comm.identity.within[kind] += 1
        self.requests = []
        self.bell.context = self.view.context
        self.bell.tag = ALARM_TAG
        self.bell.rung = &comm.identity.rung
        self.bell.heard = comm.identity.rung

    def __dealloc__(self):
        if self.view is not None and not self.over:
            self.view.identity.within[self.kind] -= 1

    def end(self):
        """This process is not in the call any more."""
        if not self.over:
            self.over = True
            self.view.identity.within[self.kind] -= 1

    def alarmed(self):
        """Read alarms; raise if one concerns this call, else the wait goes on."""
        raise InternalError("an alarm came to a call that knows of none; please report this")

    # --- waiting

    cdef bint attend(self, Request request) except -1:
        cdef patience_t patience
        if request.op != NULL and type(request) is Request:
            if not wait_beside(self.view.engine, request.op, request.generation, &self.bell):
                return False
            request.settle()
            return True
        patience_reset(&patience)
        while True:
            patience_looks(self.view.engine.c, &patience)
            if request.poll():
                return True
            if self.called():
                return False
            wait_turn(self.view.engine, &patience)

    def called(self):
        """Whether there is an alarm to read."""
        return bell_rings(self.view.engine.c, &self.bell)

    def glance(self):
        """Read alarms, if there are some, without waiting."""
        if self.called():
            self.hear()

    def hear(self):
        """Read alarms."""
        self.bell.heard = self.bell.rung[0]
        self.alarmed()

    cdef int wait(self, Request request) except -1:
        while not self.attend(request):
            self.hear()
        return self.check(request)

    cdef int check(self, Request request) except -1:
        """Raise what is wrong with a complete request."""
        if request.receives and type(request) is Request and (
                request.error == OP_TRUNCATED or
                not request.error and request.total != request.room):
            request.active = False
            text = (f"rank {request.source} sends a block of {request.total} bytes where rank "
                    f"{self.rank} expects {request.room}; give the same number of elements of "
                    "the same datatype on both")
            if request.error:
                raise TruncationError(text, message_bytes=request.total,
                                      buffer_bytes=request.room, source=request.source,
                                      tag=request.tag)
            raise CountError(text)
        request.report(None)
        return 0

    # --- buffers

    def look(self, buf, bint writable):
        """Refuse a buffer that cannot be used; returns its bytes."""
        cdef span at
        acquire(buf, writable, &at)
        return at.nbytes

    def send(self, buf, int dest):
        """Send a block; returns when `buf` may be changed."""
        cdef Request request = begin_send(self.view, buf, dest, self.tag, SEND_WAITS)
        if request is not None:
            self.wait(request)

    def isend(self, buf, int dest):
        """Start sending a block; `finish` waits for it."""
        cdef Request request = begin_send(self.view, buf, dest, self.tag, 0)
        if request is not None:
            self.requests.append(request)

    def receive(self, buf, int source):
        """Receive a block that fills `buf`, memory of the user."""
        cdef Request request = post_recv(self.view, buf, source, self.tag, True)
        self.requests.append(request)
        self.wait(request)
        self.requests.pop()

    def collect(self, buf, int source):
        """The same into memory of the library, which nobody misses if the call fails."""
        self.collecting = post_recv(self.view, buf, source, self.tag, True)
        self.wait(self.collecting)
        self.collecting = None

    def finish(self):
        """Wait for all that was started."""
        cdef Request request
        for request in self.requests:
            if request.op != NULL and request.op.length > LARGE:
                engine_wanted(self.view.engine.c, request.op, request.generation)
        for request in self.requests:
            self.wait(request)
        self.requests.clear()

    # --- objects

    def send_pickled(self, head, list parts, int dest):
        """Start sending a pickled object; `finish` waits for it."""
        self.requests.append(isend_pickled(self.view, head, parts, dest, self.tag))

    def receive_pickled(self, int source):
        """Receive a pickled object: ``(head, parts)``."""
        cdef ObjectRecv request = post_match(self.view, source, self.tag)
        self.wait(request)
        return request.pieces()

    # --- the end

    def confirm(self):
        """Wait until all ranks have come to this point of the call.

        A dissemination barrier: ceil(log2(n)) rounds of one message each way.
        """
        cdef int distance = 1
        cdef Request send
        while distance < self.size:
            send = None
            try:
                send = begin_send(self.view, TOKEN, (self.rank + distance) % self.size, self.tag,
                                  0)
            except PeerLostError:
                pass    # it may have got all tokens, this one too; else its own is missed
            self.collecting = post_recv(
                self.view, None, (self.rank + self.size - distance) % self.size, self.tag, True)
            self.wait(self.collecting)
            while send is not None and not self.attend(send):
                self.hear()
            distance *= 2
        self.collecting = None

    def withdraw(self, has_given_up):
        """Give up what is under way, so that nobody writes into memory of the user after it.

        A receive that nothing matched is taken back.  If its peer was offered the memory, the peer
        must let go first, or say that it owes nothing: its announcement would have come before.
        A matched receive is left, where only steps of this process write into the buffer
        (`engine_forsake`): the sender may be gone from the call, computing.  What is under way goes
        on in later calls, and is thrown away.  Else somebody else may be writing, and the receive
        is waited for.  That needs no calls of a sender that is gone from the call: a device, or
        this process, moves what a READ reads, the sender ends a WRITE that is under way before it
        gives up (below), and a peer that is lost ends both.

        Sends are never taken back, since the receiver may count on them: they go on by themselves,
        or in later calls of this process.

        Parameters
        ----------
        has_given_up : callable
            ``has_given_up(rank)`` reads alarms and says whether `rank` owes nothing to this call
            any more.

        Notes
        -----
        An exception that ends the wait, such as a second interrupt, ends this promise, too.
        """
        cdef Request request
        if self.collecting is not None and self.collecting.op != NULL:
            self.collecting.Cancel()
        self.collecting = None
        requests, self.requests = self.requests, []
        started = [request for request in requests
                   if type(request) is Request and (<Request> request).op != NULL]
        for request in started:
            if request.receives:
                request.Cancel()
        for request in started:
            if request.receives:
                self.let_land(request, has_given_up)
        for request in started:
            while request.op != NULL and request.op.state in (OP_READY, OP_WRITING) \
                    and not self.attend(request):
                self.bell.heard = self.bell.rung[0]
                has_given_up(self.rank)     # reads the alarms, which would end each wait at once

    cdef int let_land(self, Request request, has_given_up) except -1:
        """Wait until nobody can write into the buffer of a receive any more."""
        cdef int source = self.view.from_world(request.op.peer)
        while True:
            self.bell.heard = self.bell.rung[0]
            # In this order: once the alarm was read, so was what was sent before.
            if has_given_up(source) and request.op.state == OP_POSTED:
                return 0
            if engine_forsake(self.view.engine.c, request.op):
                request.keeper = None
                return 0
            if self.attend(request):
                return 0
