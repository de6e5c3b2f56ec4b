# cython: language_level=3, nonecheck=True
"""Requests: one operation, and whatever keeps its buffer alive (R3).

A request that is dropped before it is complete leaves its operation and its
buffer with the engine, which keeps both until the operation has ended.
Several threads may test or wait for one request: the first to see it complete
takes the result, the others find a null request.

A request may stand for another one, its *origin*: ``Request(other)`` is a second
handle, and a persistent request stands for the operation that it started last.
"""
cimport cython
from libc.stdint cimport uint32_t

from pyrdv.api.core cimport ANY_SOURCE_, ANY_TAG_NUMBER, MET_OBJECT, CommBase
from pyrdv.api.naming cimport name_missing
from pyrdv.api.refused cimport forsake, refuse_object, usable
from pyrdv.api.request_lists cimport (
    all_complete, any_pending, chosen, complete_ones, describe_all, look_for_any, report_all,
    requests_of, results, statuses_of, wait_for_all, wait_for_any)
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport engine_cancel, engine_deaths, engine_release, engine_test
from pyrdv.engine.lacking cimport complain
from pyrdv.engine.sleeping cimport have_all_look
from pyrdv.engine.state cimport (
    OP_CANCELLED, OP_COMPLETE, OP_ENDED, OP_FINALIZED, OP_NOT_REGISTERED,
    OP_TRUNCATED, PROMISE_EMPTY, op_t)
from pyrdv.engine.wire cimport CONTENT_BUFFER
from pyrdv.progress.beside cimport end_hopeless, help_pending
from pyrdv.progress.waiting cimport wait

from pyrdv.api import handles
from pyrdv.api.constants import UNDEFINED
from pyrdv.errors import RequestError, from_status


cdef inline bint met_object(Request request, const op_t *op) noexcept:
    """Whether its receive, which has ended, was for a buffer and has met an object."""
    return (op.content != request.wanted and request.receives
            and request.wanted == CONTENT_BUFFER
            and (op.error == 0 or op.error == OP_TRUNCATED))


@cython.freelist(128)
@cython.no_gc_clear
cdef class Request:
    """A communication under way.

    Parameters
    ----------
    request : Request, optional
        Makes another handle of the same operation; a null request when not given.

    Returned by the non-blocking calls.  It can be waited for with `Wait`,
    tested with `Test`, awaited with ``await``, or dropped: the library then
    keeps the buffer until the operation has ended.
    """

    # Not __init__, which can be called again: that would tear a live request from its operation.
    def __cinit__(self, Request request=None):
        if request is not None:
            self.origin = request.root()
            self.comm = request.comm

    cdef void start(self, CommBase comm, op_t *op, object keeper, bint receives) noexcept:
        self.comm = comm
        self.op = op
        self.active = True
        self.receives = receives
        self.source = ANY_SOURCE_
        self.tag = ANY_TAG_NUMBER
        if op != NULL:
            self.generation = op.generation
            self.keeper = keeper

    def __dealloc__(self):
        if self.op != NULL and self.op.generation == self.generation:
            if self.op.state != OP_COMPLETE:
                forsake(self.comm, self.op, self.keeper)
                return
            if usable(self.comm.engine):
                refuse_object(self.comm, self.op)
            engine_release(self.comm.engine.c, self.op)

    cdef Request root(self):
        return self if self.origin is None else self.origin.root()

    cdef bint pending(self):
        return self.active if self.origin is None else self.origin.pending()

    cdef bint null(self):
        return not self.active if self.origin is None else self.origin.null()

    def __bool__(self):
        return not self.null()

    def __eq__(self, other):
        if not isinstance(other, Request):
            return NotImplemented
        return (self.root() is (<Request> other).root()
                or self.null() and (<Request> other).null())

    def __hash__(self):
        return id(self.root())

    def __reduce__(self):
        raise RequestError("a request cannot be pickled: it belongs to this process")

    def __repr__(self):
        name = type(self).__name__
        if self.null():
            return f"<{name}: null>"
        if self.origin is not None or not self.active:
            return f"<{name}: {'under way' if self.pending() else 'inactive'}>"
        kind = "receive" if self.receives else "send"
        return f"<{name}: {kind}, {'complete' if self.op == NULL else 'under way'}>"

    cdef int settle(self) except -1:
        cdef op_t *op = self.op
        if op == NULL:
            return 0
        if op.generation == self.generation and met_object(self, op):
            # First, for it may lack memory; then nothing has changed.
            refuse_object(self.comm, op)
        self.op = NULL
        if op.generation == self.generation:
            self.error = MET_OBJECT if met_object(self, op) else op.error
            if op.error == OP_CANCELLED and op.flags & OP_ENDED:
                self.error = OP_FINALIZED
            if op.promised == PROMISE_EMPTY and self.error == 0:
                self.error = OP_NOT_REGISTERED
            self.total = op.total
            # An object that is not wanted may not have come into the buffer at all.
            self.room = 0 if op.buffer == &op.peek[0] else op.length
            if self.receives:
                self.source = self.comm.from_world(op.source) if op.source != 0xFFFFFFFFu \
                    else ANY_SOURCE_
                self.tag = op.source_tag
            else:
                self.source = self.comm.from_world(op.peer)
                self.tag = op.tag
            engine_release(self.comm.engine.c, op)
        self.keeper = None
        return 0

    cdef bint poll(self) except -1:
        cdef uint32_t epoch
        if self.op == NULL:
            return self.origin is None or self.origin.poll()
        self.comm.check_process()
        if not engine_test(self.comm.engine.c, self.op, self.generation, False,
                           &epoch):
            if self.comm.engine.closed:
                raise from_status(OP_FINALIZED)
            help_pending(self.comm.engine, False)
            if self.op != NULL:
                complain(self.comm.engine, self.op, self.generation)
            # A receive from anybody whom a death has left alone would be tested for ever.
            if self.op != NULL and engine_deaths(self.comm.engine.c):
                end_hopeless(self.comm.engine, self.op, self.generation, False)
            return False
        self.settle()
        return True

    cdef int block(self) except -1:
        cdef op_t *op = self.op
        if op != NULL:
            self.comm.check_process()
            wait(self.comm.engine, op, self.generation)
            self.settle()
        elif self.origin is not None:
            self.origin.block()
        return 0

    cdef void describe(self, Status status) noexcept:
        if self.origin is not None:
            self.origin.describe(status)
        elif self.active and self.receives:
            status.set(self.source, self.tag, 0 if self.error else self.total, 0)
            status.was_cancelled = self.error == OP_CANCELLED
        else:
            status.set(ANY_SOURCE_, ANY_TAG_NUMBER, 0, 0)
            status.was_cancelled = self.active and self.error == OP_CANCELLED

    cdef int report(self, Status status) except -1:
        if self.origin is not None:
            return self.origin.report(status)
        if status is not None:
            self.describe(status)
        if not self.active:
            return 0
        self.active = False
        if self.error and self.error != OP_CANCELLED:
            failure = self.comm.failure(self.error, self.source, self.tag, self.total, self.room)
            if status is not None:
                status.error = failure.error_class
                status.nbytes = min(self.total, self.room) if self.receives else 0
            raise failure
        return 0

    cdef object result(self):
        return None if self.origin is None else self.origin.result()

    # --- one request

    def Wait(self, Status status=None):
        """Wait until the operation is complete; returns True.

        Parameters
        ----------
        status : Status, optional
            Filled with source, tag and size of a received message.

        Raises
        ------
        TruncationError
            The message was longer than the buffer.
        PeerLostError
            The peer is gone.
        """
        self.block()
        self.report(status)
        return True

    def Test(self, Status status=None):
        """Whether the operation is complete; makes progress, does not wait."""
        if not self.poll():
            return False
        self.report(status)
        return True

    def Get_status(self, Status status=None):
        """Whether the operation is complete, without using up the request."""
        if not self.poll():
            return False
        if status is not None:
            self.describe(status)
        return True

    get_status = Get_status

    def wait(self, Status status=None):
        """Wait; returns the received object (`None` for sends and buffers)."""
        self.block()
        self.report(status)
        return self.result()

    def test(self, Status status=None):
        """Returns ``(complete, object)``; makes progress, does not wait."""
        if not self.poll():
            return False, None
        self.report(status)
        return True, self.result()

    def Cancel(self):
        """Take back a receive that was not matched or a send that did not leave.

        The request must still be completed with `Wait` or `Test`; its status
        then says whether it was cancelled.
        """
        if self.origin is not None:
            self.origin.Cancel()
        elif self.active and self.op != NULL and not self.comm.engine.closed:
            engine_cancel(self.comm.engine.c, self.op)

    cancel = Cancel

    def Free(self):
        """Forget the request; the operation goes on, its buffer stays alive."""
        if self.origin is not None:
            self.origin.Free()
            return
        if self.op != NULL and self.op.generation == self.generation:
            if self.op.state == OP_COMPLETE:
                self.settle()
            else:
                forsake(self.comm, self.op, self.keeper)
        self.op = NULL
        self.keeper = None
        self.retire()

    cdef void retire(self) noexcept:
        # Who awaits it finds it null.  MESSAGE_NO_PROC belongs to no communicator.
        if self.active and self.comm is not None and usable(self.comm.engine):
            have_all_look(self.comm.engine.c)
        self.active = False

    def free(self):
        """`Free`, unless it is null already."""
        if not self.null():
            self.Free()

    @property
    def handle(self):
        """A number from which `fromhandle` finds this request again, while it lives."""
        return handles.number(self.root())

    @classmethod
    def fromhandle(cls, handle):
        """Another handle of the request whose `handle` this is."""
        return cls(handles.find(handle))

    def toint(self):
        """-1: there is no number of MPI's C interface."""
        return -1

    def py2f(self):
        """-1: there is no number of MPI's Fortran interface."""
        return -1

    def is_complete(self):
        """Whether the operation has ended; makes progress, uses nothing up."""
        return self.poll()

    def _waited_for(self):
        """Somebody awaits it: a receive from anybody ends once nobody is left, as in `Wait`."""
        if self.origin is not None:
            self.origin._waited_for()
        elif self.op != NULL:
            end_hopeless(self.comm.engine, self.op, self.generation, True)

    @property
    def was_cancelled(self):
        """Whether the operation has ended because it was cancelled."""
        if self.origin is not None:
            return self.origin.was_cancelled
        return self.op == NULL and self.error == OP_CANCELLED

    def __await__(self):
        # asyncio costs more to import than all the rest, and few programs await.
        from pyrdv.progress import loop as progress_loop
        return progress_loop.wait_request(
            None if self.comm is None else self.comm.engine, self).__await__()

    # --- several requests

    @classmethod
    def Waitall(cls, requests, statuses=None):
        """Wait for all; returns True.  Raises the first error after all are complete."""
        cdef tuple given = requests_of(requests)
        statuses_of(statuses)
        wait_for_all(given)
        report_all(given, statuses)
        return True

    @classmethod
    def Testall(cls, requests, statuses=None):
        """Whether all are complete; if so they are used up as by `Waitall`."""
        cdef tuple given = requests_of(requests)
        statuses_of(statuses)
        if not all_complete(given):
            return False
        report_all(given, statuses)
        return True

    @classmethod
    def Waitany(cls, requests, Status status=None):
        """Wait for one; returns its index, or `UNDEFINED` if all are null."""
        cdef tuple given = requests_of(requests)
        index = wait_for_any(given)
        if index != UNDEFINED:
            (<Request> given[index]).report(status)
        return index

    @classmethod
    def Testany(cls, requests, Status status=None):
        """Returns ``(index, True)`` for a complete one; ``(UNDEFINED, False)`` for none."""
        cdef tuple given = requests_of(requests)
        index, flag = look_for_any(given)
        if index != UNDEFINED:
            (<Request> given[index]).report(status)
        return index, flag

    @classmethod
    def Waitsome(cls, requests, statuses=None):
        """Wait for at least one; returns the indices of all complete ones, None if all null."""
        cdef tuple given = requests_of(requests)
        statuses_of(statuses)
        if wait_for_any(given) == UNDEFINED:
            return None
        indices = complete_ones(given)
        report_all(chosen(given, indices), statuses)
        return indices

    @classmethod
    def Testsome(cls, requests, statuses=None):
        """Indices of all complete ones (perhaps none); None if all are null."""
        cdef tuple given = requests_of(requests)
        statuses_of(statuses)
        if not any_pending(given):
            return None
        indices = complete_ones(given)
        report_all(chosen(given, indices), statuses)
        return indices

    @classmethod
    def waitall(cls, requests, statuses=None):
        """Wait for all; returns the list of received objects."""
        cdef tuple given = requests_of(requests)
        cls.Waitall(given, statuses)
        return results(given)

    @classmethod
    def testall(cls, requests, statuses=None):
        """Returns ``(True, objects)`` if all are complete, else ``(False, None)``."""
        cdef tuple given = requests_of(requests)
        return (True, results(given)) if cls.Testall(given, statuses) else (False, None)

    @classmethod
    def waitany(cls, requests, Status status=None):
        """Wait for one; returns ``(index, object)``."""
        cdef tuple given = requests_of(requests)
        index = cls.Waitany(given, status)
        return index, None if index == UNDEFINED else (<Request> given[index]).result()

    @classmethod
    def testany(cls, requests, Status status=None):
        """Returns ``(index, flag, object)``."""
        cdef tuple given = requests_of(requests)
        index, flag = cls.Testany(given, status)
        return index, flag, None if index == UNDEFINED else (<Request> given[index]).result()

    @classmethod
    def waitsome(cls, requests, statuses=None):
        """Wait for at least one; returns ``(indices, objects)``."""
        cdef tuple given = requests_of(requests)
        indices = cls.Waitsome(given, statuses)
        return indices, None if indices is None else results(chosen(given, indices))

    @classmethod
    def testsome(cls, requests, statuses=None):
        """Returns ``(indices, objects)`` of all complete ones."""
        cdef tuple given = requests_of(requests)
        indices = cls.Testsome(given, statuses)
        return indices, None if indices is None else results(chosen(given, indices))

    # --- the same without using anything up

    @classmethod
    def Get_status_all(cls, requests, statuses=None):
        """Whether all are complete; none is used up."""
        cdef tuple given = requests_of(requests)
        statuses_of(statuses)
        if not all_complete(given):
            return False
        describe_all(given, statuses)
        return True

    @classmethod
    def Get_status_any(cls, requests, Status status=None):
        """As `Testany`, but nothing is used up."""
        cdef tuple given = requests_of(requests)
        index, flag = look_for_any(given)
        if index != UNDEFINED:
            if status is not None:
                (<Request> given[index]).describe(status)
        elif flag and status is not None:
            status.set(ANY_SOURCE_, ANY_TAG_NUMBER, 0, 0)
        return index, flag

    @classmethod
    def Get_status_some(cls, requests, statuses=None):
        """As `Testsome`, but nothing is used up."""
        cdef tuple given = requests_of(requests)
        statuses_of(statuses)
        if not any_pending(given):
            return None
        indices = complete_ones(given)
        describe_all(chosen(given, indices), statuses)
        return indices

    get_status_all = Get_status_all
    get_status_any = Get_status_any
    get_status_some = Get_status_some

    @staticmethod
    def cancel_all(requests):
        """`Cancel` each of them."""
        for request in requests_of(requests):
            request.Cancel()


name_missing(Request)
