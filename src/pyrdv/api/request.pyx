# cython: language_level=3
"""Requests: one operation, and whatever keeps its buffer alive (R3).

A request that is dropped before it is complete leaves its operation and its
buffer with the engine, which keeps both until the operation has ended.
Several threads may test or wait for one request: the first to see it complete
takes the result, the others find a null request.
"""
cimport cython
from libc.stdint cimport uint32_t

from pyrdv.api.core cimport ANY_SOURCE_, ANY_TAG_NUMBER, CommBase
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport engine_cancel, engine_release, engine_test
from pyrdv.engine.engine cimport adopt
from pyrdv.engine.state cimport OP_CANCELLED, OP_COMPLETE, op_t
from pyrdv.progress.polling cimport help_pending, patience_reset, patience_t, wait, wait_turn

from pyrdv.api.constants import UNDEFINED


@cython.freelist(128)
@cython.no_gc_clear
cdef class Request:
    """A communication under way.

    Returned by the non-blocking calls.  It can be waited for with `Wait`,
    tested with `Test`, awaited with ``await``, or dropped: the library then
    keeps the buffer until the operation has ended.
    """

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
            if self.op.state == OP_COMPLETE:
                engine_release(self.comm.engine.c, self.op)
            else:
                adopt(self.comm.engine, self.op, self.keeper)

    def __bool__(self):
        return self.active

    def __eq__(self, other):
        if not isinstance(other, Request):
            return NotImplemented
        return self is other or not self.active and not (<Request> other).active

    def __hash__(self):
        return id(self)

    def __repr__(self):
        if not self.active:
            return "<Request: null>"
        kind = "receive" if self.receives else "send"
        return f"<Request: {kind}, {'complete' if self.op == NULL else 'under way'}>"

    cdef int settle(self) except -1:
        cdef op_t *op = self.op
        if op == NULL:
            return 0
        self.op = NULL
        if op.generation == self.generation:
            self.error = op.error
            self.total = op.total
            self.room = op.length
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
            return True
        self.comm.check_process()
        if not engine_test(self.comm.engine.c, self.op, self.generation, &epoch):
            help_pending(self.comm.engine, False)
            return False
        self.settle()
        return True

    cdef int block(self) except -1:
        cdef op_t *op = self.op
        if op != NULL:
            self.comm.check_process()
            wait(self.comm.engine, op, self.generation)
            self.settle()
        return 0

    cdef int report(self, Status status) except -1:
        cdef bint cancelled = self.error == OP_CANCELLED
        if not self.active:
            if status is not None:
                status.set(ANY_SOURCE_, ANY_TAG_NUMBER, 0, 0)
            return 0
        self.active = False
        if status is not None:
            if self.receives:
                status.set(self.source, self.tag,
                           0 if self.error else self.total, 0)
            else:
                status.set(ANY_SOURCE_, ANY_TAG_NUMBER, 0, 0)
            status.was_cancelled = cancelled
        if self.error and not cancelled:
            failure = self.comm.failure(self.error, self.source, self.tag, self.total, self.room)
            if status is not None:
                status.error = failure.error_class
                status.nbytes = min(self.total, self.room) if self.receives else 0
            raise failure
        return 0

    cdef object result(self):
        return None

    # --- one request

    def Wait(self, Status status=None):
        """Wait until the operation is complete.

        Parameters
        ----------
        status : Status, optional
            Filled with source, tag and size of a received message.

        Returns
        -------
        bool
            True.

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
            status.set(self.source, self.tag, self.total if self.receives else 0, 0)
            status.was_cancelled = self.error == OP_CANCELLED
        return True

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
        if self.op != NULL:
            engine_cancel(self.comm.engine.c, self.op)

    cancel = Cancel

    def Free(self):
        """Forget the request; the operation goes on, its buffer stays alive."""
        if self.op != NULL and self.op.generation == self.generation:
            adopt(self.comm.engine, self.op, self.keeper)
        self.op = NULL
        self.keeper = None
        self.active = False

    def is_complete(self):
        """Whether the operation has ended; makes progress, uses nothing up."""
        return self.poll()

    @property
    def was_cancelled(self):
        """Whether the operation has ended because it was cancelled."""
        return self.op == NULL and self.error == OP_CANCELLED

    def __await__(self):
        # asyncio costs more to import than all the rest, and few programs await.
        from pyrdv.progress import loop as progress_loop
        return progress_loop.wait_request(self.comm and self.comm.engine, self).__await__()

    # --- several requests

    @classmethod
    def Waitall(cls, requests, statuses=None):
        """Wait for all; returns True.  Raises the first error after all are complete."""
        wait_for_all(requests)
        report_all(requests, statuses)
        return True

    @classmethod
    def Testall(cls, requests, statuses=None):
        """Whether all are complete; if so they are used up as by `Waitall`."""
        if not all_complete(requests):
            return False
        report_all(requests, statuses)
        return True

    @classmethod
    def Waitany(cls, requests, Status status=None):
        """Wait for one; returns its index, or `UNDEFINED` if all are null."""
        cdef Request request
        index = wait_for_any(requests)
        if index != UNDEFINED:
            request = requests[index]
            request.report(status)
        return index

    @classmethod
    def Testany(cls, requests, Status status=None):
        """Returns ``(index, True)`` for a complete one; ``(UNDEFINED, False)`` for none."""
        cdef Request request
        index, flag = look_for_any(requests)
        if index != UNDEFINED:
            request = requests[index]
            request.report(status)
        return index, flag

    @classmethod
    def Waitsome(cls, requests, statuses=None):
        """Wait for at least one; returns the indices of all complete ones, None if all null."""
        if wait_for_any(requests) == UNDEFINED:
            return None
        indices = complete_ones(requests)
        report_all([requests[i] for i in indices], statuses)
        return indices

    @classmethod
    def Testsome(cls, requests, statuses=None):
        """Indices of all complete ones (perhaps none); None if all are null."""
        if not any(requests):
            return None
        indices = complete_ones(requests)
        report_all([requests[i] for i in indices], statuses)
        return indices

    @classmethod
    def waitall(cls, requests, statuses=None):
        """Wait for all; returns the list of received objects."""
        wait_for_all(requests)
        report_all(requests, statuses)
        return results(requests)

    @classmethod
    def testall(cls, requests, statuses=None):
        """Returns ``(True, objects)`` if all are complete, else ``(False, None)``."""
        if not all_complete(requests):
            return False, None
        report_all(requests, statuses)
        return True, results(requests)

    @classmethod
    def waitany(cls, requests, Status status=None):
        """Wait for one; returns ``(index, object)``."""
        index = cls.Waitany(requests, status)
        return index, None if index == UNDEFINED else (<Request> requests[index]).result()

    @classmethod
    def testany(cls, requests, Status status=None):
        """Returns ``(index, flag, object)``."""
        index, flag = cls.Testany(requests, status)
        return index, flag, None if index == UNDEFINED else (<Request> requests[index]).result()

    @classmethod
    def waitsome(cls, requests, statuses=None):
        """Wait for at least one; returns ``(indices, objects)``."""
        indices = cls.Waitsome(requests, statuses)
        return indices, None if indices is None else results([requests[i] for i in indices])

    @classmethod
    def testsome(cls, requests, statuses=None):
        """Returns ``(indices, objects)`` of all complete ones."""
        indices = cls.Testsome(requests, statuses)
        return indices, None if indices is None else results([requests[i] for i in indices])

    @staticmethod
    def cancel_all(requests):
        """`Cancel` each of them."""
        for request in requests:
            request.Cancel()


cdef int wait_for_all(requests) except -1:
    cdef Request request
    for request in requests:
        if request.op != NULL or request.active:
            request.block()
    return 0


cdef int report_all(requests, statuses) except -1:
    cdef Request request
    cdef Status status
    cdef Py_ssize_t i = 0
    failure = None
    if statuses is not None:
        statuses.extend(Status() for _ in range(len(requests) - len(statuses)))
    for request in requests:
        status = None if statuses is None else statuses[i]
        i += 1
        try:
            request.report(status)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return 0


cdef bint all_complete(requests) except -1:
    cdef Request request
    for request in requests:
        if not request.poll():
            return False
    return True


cdef list complete_ones(requests):
    cdef Request request
    indices = []
    for i, request in enumerate(requests):
        if request.active and request.poll():
            indices.append(i)
    return indices


cdef list results(requests):
    cdef Request request
    return [request.result() for request in requests]


cdef tuple look_for_any(requests):
    cdef Request request
    some = False
    for i, request in enumerate(requests):
        if request.active:
            some = True
            if request.poll():
                return i, True
    return UNDEFINED, not some


cdef object wait_for_any(requests):
    cdef patience_t patience
    cdef Request request = None
    patience_reset(&patience)
    for request in requests:
        if request.active:
            break
    while True:
        if request is not None and request.comm is not None:
            patience.epoch = request.comm.engine.c.epoch
        index, flag = look_for_any(requests)
        if flag:
            return index
        wait_turn(request.comm.engine, &patience)


cdef int withdraw(Request request) except -1:
    if request.op != NULL and not engine_cancel(request.comm.engine.c, request.op):
        # Matched: its data is on the way into the caller's buffer, so it must land first.  Or its
        # peer may write there and is asked to let go; a second interrupt does not wait for that.
        request.block()
    request.settle()
    return 0
