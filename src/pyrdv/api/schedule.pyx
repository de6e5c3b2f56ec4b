# cython: language_level=3
"""Builds schedules of messages between the members of a communicator, and starts them.

What must hold:

1. A schedule has a tag of its own, as a call has (`pyrdv.api.call`): its kind and its number among
   those of that kind on the communicator.  It has the number before its arguments are read, so a
   member that refuses them does not get out of step.
2. Its buffers live until nothing of it is under way: the request keeps the schedule, and what the
   schedule leaves to the engine keeps the buffers.
3. What Python must do is done by the next call of this process that waits or looks (`help`).
4. Whoever waits for its request, or looks at it, also sees alarms, by which other members say that
   the call failed there before it began, as in `pyrdv.api.call`.
"""
cimport cython
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.call cimport ALARM_TAG
from pyrdv.api.communicator cimport Comm
from pyrdv.api.core cimport CALLS
from pyrdv.api.owners cimport named_owner, unname
from pyrdv.api.reductions cimport find_loop
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.engine cimport adopt, own_process
from pyrdv.engine.schedule.plan cimport (
    ACTION_CALL, ACTION_COPY, ACTION_RECV, ACTION_REDUCE, ACTION_SEND, SCHEDULE_NEW, SCHEDULE_OVER,
    action_t, round_t, schedule_renew)
from pyrdv.engine.schedule.schedule cimport (
    schedule_called, schedule_end, schedule_excuse, schedule_release, schedule_start,
    schedule_waits)
from pyrdv.engine.state cimport OP_FAILED_THERE, OP_INVALID, op_t
from pyrdv.progress.waiting cimport bell_rings, wait_beside

from weakref import ref

import numpy as np

from pyrdv import algorithms
from pyrdv.errors import InternalError


@cython.no_gc_clear
cdef class Schedule:
    """One collective call that does not block, in this process.

    Parameters
    ----------
    comm : Comm
    kind : int
        Less than 64.  The same operation has the same kind on all ranks.

    Raises
    ------
    CommunicatorError, FinalizedError, ForkedError
        The communicator cannot be used.

    Messages and work are added in order.  Messages that are added one after the other are a round,
    and start together; work that is added behind them is done when all of them are complete.  What
    is added behind work, or after `then`, is the next round.

    Attributes
    ----------
    kept : bool
        It may be started again when it is over, with the same tag: messages between two ranks come
        in order, and each start has as many.  Set before it is started.
    """

    def __cinit__(self, Comm comm not None, int kind):
        memset(&self.s, 0, sizeof(self.s))
        self.engine = comm.engine
        self.kind = kind
        self.enroll(comm)
        self.rank = comm.members.rank
        self.size = comm.members.size
        self.keepers = ()
        self.owned = ()
        self.calls = {}
        self.called_last = -1
        self.failures = []

    cdef int enroll(self, Comm comm) except -1:
        comm.ready()
        self.view = comm.collective()
        self.number = comm.identity.begun[self.kind] % CALLS
        self.tag = self.kind * CALLS + self.number
        comm.identity.begun[self.kind] = (self.number + 1) % CALLS
        comm.identity.within[self.kind] += 1
        self.left = False
        self.bell.context = self.view.context
        self.bell.tag = ALARM_TAG
        self.bell.rung = &comm.identity.rung
        self.bell.heard = comm.identity.rung
        self.s.context = self.view.context
        self.s.tag = self.tag
        return 0

    def __dealloc__(self):
        self.kept = False
        self.shape = None
        self.release()
        free(self.actions)
        free(self.places)
        free(self.rounds)
        free(self.s.members)

    cdef void release(self) noexcept:
        cdef op_t **left = NULL
        cdef uint32_t count = 0
        cdef uint32_t i
        if self.view is not None and own_process(self.engine):
            self.let_go()
            self.gone()
            left = <op_t **> calloc(self.s.action_count + 1, sizeof(op_t *))
            if self.s.actions != NULL and left != NULL:     # it was started
                count = schedule_release(self.engine.c, &self.s, left)
                self.s.actions = NULL
            for i in range(count if not self.engine.closed else 0):
                try:
                    adopt(self.engine, left[i], self.keepers)
                except MemoryError:
                    pass            # it goes on all the same, and ends with the engine
            free(left)
            if self.shape is not None and not self.kept:
                self.keepers = ()
                self.put_back(count != 0)
        if not self.kept:
            self.keepers = ()

    cdef void put_back(self, bint busy) noexcept:
        """To the shelf, unless it failed, or something of it goes on."""
        shelf = self.view.identity.shelf
        if busy or self.s.error or self.s.state != SCHEDULE_OVER or shelf is None:
            self.shape = None
            return
        self.view = None
        try:
            shelf.keep(self)
        except MemoryError:
            self.shape = None

    # --- building

    cdef action_t *add(self, uint8_t kind) except NULL:
        cdef bint works = kind not in (ACTION_SEND, ACTION_RECV)
        cdef action_t *a
        if self.s.state != SCHEDULE_NEW:
            raise InternalError("a schedule that was started is built on; please report this")
        if self.working and not works:
            self.then()
        if self.s.action_count == self.action_room:
            a = <action_t *> realloc(self.actions, (2 * self.action_room + 16) * sizeof(action_t))
            if a == NULL:
                raise MemoryError
            self.actions = a
            self.action_room = 2 * self.action_room + 16
        if self.s.round_count == self.round_room:
            self.grow_rounds()
        a = &self.actions[self.s.action_count]
        memset(a, 0, sizeof(action_t))
        a.kind = kind
        self.s.action_count += 1
        self.rounds[self.s.round_count].end = self.s.action_count
        if not works:
            self.rounds[self.s.round_count].middle = self.s.action_count
        self.working = works
        return a

    def grow_rounds(self):
        """Room for more rounds."""
        cdef uint32_t room = 2 * self.round_room + 8
        cdef round_t *wider = <round_t *> realloc(self.rounds, room * sizeof(round_t))
        if wider == NULL:
            raise MemoryError
        memset(&wider[self.round_room], 0, (room - self.round_room) * sizeof(round_t))
        self.rounds = wider
        self.round_room = room

    def then(self):
        """End the round, if anything is in it: what follows waits for it."""
        cdef uint32_t count = self.s.action_count
        if self.round_room and self.rounds[self.s.round_count].end == count \
                and self.rounds[self.s.round_count].begin < count:
            self.s.round_count += 1
            if self.s.round_count == self.round_room:
                self.grow_rounds()
            self.rounds[self.s.round_count].begin = count
            self.rounds[self.s.round_count].middle = count
            self.rounds[self.s.round_count].end = count
        self.working = False

    cdef int message(self, uint8_t kind, object buf, int other, bint writable) except -1:
        cdef span at
        cdef action_t *a
        if other == self.rank or not 0 <= other < self.size:
            raise InternalError(f"a schedule of rank {self.rank} has a message with rank {other}; "
                                "please report this")
        keeper = acquire(buf, writable, &at)
        self.keepers = (keeper, self.keepers)
        a = self.add(kind)
        a.peer = self.view.members.to_world(other)
        a.buffer = at.address
        a.length = at.nbytes
        a.part = self.parts
        a.owner = named_owner(self.engine, keeper, &at)
        self.named = True
        return 0

    def send(self, buf, int dest):
        """Send `buf` to another member; its bytes are those that it has when the round starts."""
        self.message(ACTION_SEND, buf, dest, False)

    def receive(self, buf, int source):
        """Receive a message that fills `buf` from another member."""
        self.message(ACTION_RECV, buf, source, True)

    def copy(self, origin, into):
        """Copy bytes; `origin` and `into` have as many, and do not overlap."""
        cdef span source
        cdef span target
        cdef action_t *a
        self.keepers = (acquire(origin, False, &source), self.keepers)
        self.keepers = (acquire(into, True, &target), self.keepers)
        if source.nbytes != target.nbytes:
            raise InternalError(f"a schedule copies {source.nbytes} bytes into {target.nbytes}; "
                                "please report this")
        if target.nbytes == 0:
            return
        a = self.add(ACTION_COPY)
        a.buffer = target.address
        a.origin = source.address
        a.length = target.nbytes

    def reduce(self, op, datatype, other, into, bint right):
        """Combine `other` and `into` into `into`; `right`: `other` is the right operand."""
        cdef span source
        cdef span target
        cdef action_t *a
        self.keepers = (acquire(other, False, &source), self.keepers)
        self.keepers = (acquire(into, True, &target), self.keepers)
        if target.nbytes == 0:
            return
        a = self.add(ACTION_REDUCE)
        a.reduce = find_loop(op, datatype, right)
        if a.reduce == NULL:
            a.kind = ACTION_CALL
            self.calls[self.s.action_count - 1] = op, datatype, other, into, right
        a.buffer = target.address
        a.origin = source.address
        a.length = target.nbytes
        a.unit = datatype.size

    def scratch(self, nbytes):
        """Bytes of memory that lives as long as the schedule; a memoryview."""
        array = np.empty(nbytes, np.uint8)
        self.owned = (*self.owned, array)
        return memoryview(array)

    def choose(self, uint8_t way, uint8_t reason, bint mixed):
        """Note which algorithm its rounds are, and why (`pyrdv.algorithms`).

        `mixed`: members whose lengths differ by mistake may have other rounds, so a message that is
        not as expected ends it (L5).
        """
        self.s.way = way
        self.s.reason = reason
        self.s.strict = mixed

    # --- running

    cdef int arrange(self) except -1:
        """The arrays are complete."""
        cdef uint32_t i
        if self.s.members == NULL:
            self.then()
            self.s.members = <uint32_t *> calloc(self.size, sizeof(uint32_t))
            if self.s.members == NULL:
                raise MemoryError
            for i in range(<uint32_t> self.size):
                self.s.members[i] = self.view.members.to_world(i)
            self.s.member_count = self.size
        schedule_renew(&self.s)
        for i in range(self.s.action_count):
            self.actions[i].op = NULL
            self.actions[i].excused = 0
        self.s.actions = self.actions
        self.s.rounds = self.rounds
        self.called_last = -1
        self.failures = []
        return 0

    cdef int let_go(self) noexcept:
        cdef uint32_t i
        if self.named and not self.kept:
            for i in range(self.s.action_count):
                if self.actions[i].owner != NULL:
                    unname(self.engine, self.actions[i].owner)
                    self.actions[i].owner = NULL
            self.named = False
        return 0

    def start(self):
        """Start it.

        Returns
        -------
        Request

        Raises
        ------
        NoMemoryError
        """
        cdef CollectiveRequest request = CollectiveRequest.__new__(CollectiveRequest)
        cdef int error
        request.kind = self.kind
        self.arrange()
        request.failures = self.failures
        error = schedule_start(self.engine.c, &self.s)
        self.let_go()               # its operations have named them
        if error:
            raise self.view.failure(-error, self.rank, 0, 0, 0)
        request.start(self.view, self.s.op, self, False)
        if self.calls:
            pending = self.engine.pending
            key = <size_t> <void *> self
            pending[key] = ref(self, lambda _gone: pending.pop(key, None))
            self.help()
        return request

    def begin(self):
        """`enter`, and `start` unless something of a failure is known; then None."""
        self.enter()                # before alarms are looked for, which are for this call, too
        if bell_rings(self.engine.c, &self.bell) or self.view.identity.aftermath is not None:
            return None
        return self.start()

    def failed(self, failure):
        """A request of a call that does not start here; it raises `failure` where it ends."""
        cdef CollectiveRequest request = CollectiveRequest.__new__(CollectiveRequest)
        request.kind = self.kind
        request.failures = [failure]
        request.start(self.view, NULL, None, False)
        request.error = OP_INVALID
        self.s.state = SCHEDULE_OVER
        return request

    def launch(self):
        """`start`, unless other members have said that the call failed; see there."""
        return self.start()

    def help(self):
        """Do what Python must, if its turn has come."""
        cdef long i
        cdef int error
        while True:
            i = schedule_waits(self.engine.c, &self.s)
            if i <= self.called_last:
                break
            self.called_last = i        # first: a function of the user may come here again
            op, datatype, other, into, right = self.calls[i]
            error = 0
            try:
                combine(op, datatype, other, into, right)
            except BaseException as raised:
                self.failures.append(raised)
                error = OP_INVALID
            schedule_called(self.engine.c, &self.s, error)
        if self.s.state == SCHEDULE_OVER:
            self.engine.pending.pop(<size_t> <void *> self, None)

    @property
    def is_over(self):
        """Whether all of it is done; makes no progress."""
        return self.s.state == SCHEDULE_OVER

    # --- failures

    @property
    def has_failed(self):
        """Whether something went wrong here, and not on another member first."""
        return self.s.error != 0 and self.s.error != OP_FAILED_THERE

    def fell(self, failure):
        """Its request raises `failure`."""

    def called(self):
        """Whether there is an alarm to read."""
        return bell_rings(self.engine.c, &self.bell)

    def alarmed(self):
        """Read alarms; `end` it if one concerns it."""
        raise InternalError("an alarm came to a call that knows of none; please report this")

    cdef int hear(self) except -1:
        self.bell.heard = self.bell.rung[0]
        self.alarmed()
        return 0

    def end(self, failure):
        """No round of it begins any more; its request raises `failure`, unless it `has_failed`
        before, once nothing can be written into its memory.  Nothing happens if it is over."""
        if not self.left:
            if not self.has_failed:
                self.failures.append(failure)
            schedule_end(self.engine.c, &self.s, OP_INVALID)

    def excuse(self, int rank):
        """Wait for nothing of a member any more that has said that the call failed, or who is
        gone; once it has ended here."""
        schedule_excuse(self.engine.c, &self.s, self.view.members.to_world(rank))

    def enter(self):
        """This process is in the call again."""
        if self.left:
            self.left = False
            self.view.identity.within[self.kind] += 1

    cdef void gone(self) noexcept:
        if not self.left:
            self.left = True
            self.view.identity.within[self.kind] -= 1

    def leave(self):
        """This process is not in the call any more."""
        self.gone()


def combine(op, datatype, other, into, right):
    """What a reduction of a schedule does where there is no loop in C; see `Schedule.reduce`."""
    if right:
        kept = bytearray(other)
        op.reduce_local(into, kept, datatype)
        into[:] = kept
    else:
        # A function of the user may change both.
        op.reduce_local(bytearray(other), into, datatype)


cdef class CollectiveRequest(Request):
    """A collective operation under way."""

    def __repr__(self):
        if self.null():
            return "<CollectiveRequest: null>"
        cdef Schedule schedule = self.keeper
        by = ""
        if schedule is not None and schedule.s.way:
            by = f"{algorithms.WORDS[schedule.s.way]} ({algorithms.REASONS[schedule.s.reason]}), "
        return f"<CollectiveRequest: {by}{'complete' if self.op == NULL else 'under way'}>"

    cdef int settle(self) except -1:
        # Not left to the end of the schedule: an exception that it raised may keep it.
        cdef Schedule schedule = self.keeper
        Request.settle(self)
        if schedule is not None:
            if self.error:
                self.failed = schedule
            schedule.release()
        return 0

    cdef bint poll(self) except -1:
        cdef Schedule schedule
        if Request.poll(self):
            return True
        schedule = self.keeper
        if schedule is None or not bell_rings(schedule.engine.c, &schedule.bell):
            return False
        schedule.hear()
        return Request.poll(self)

    cdef int block(self) except -1:
        cdef Schedule schedule = self.keeper
        if self.op == NULL or schedule is None:
            return Request.block(self)
        self.comm.check_process()
        while not wait_beside(schedule.engine, self.op, self.generation, &schedule.bell):
            schedule.hear()
        return self.settle()

    cdef int report(self, Status status) except -1:
        schedule, self.failed = self.failed, None
        try:
            if self.active and self.error and self.failures:
                self.active = False
                failure = self.failures[0]
                # What it will name keeps the list: a cycle, which would keep the user's buffers.
                self.failures.clear()
                raise failure
            return Request.report(self, status)
        except BaseException as error:
            if schedule is not None:
                schedule.fell(error)
            raise
