"""How a collective call on buffers is made.

What must hold:

1. All members make the calls of one communicator in one order, those that do not block included.
2. A builder reads its arguments before it adds anything, and looks at no buffer's contents: a
   persistent call is built once, and started with what its buffers hold then.
3. The rounds are a function of the kind, the sizes, the root, and the ranks: each message has its
   receive on the other side, and those between two ranks are in one order.
4. No memory is sent from and written to, or written to twice, in one round.
5. A member whose call cannot start tells each other member directly (`aftermath`), and raises.  The
   calls of those that are not done with theirs fail, where they end: also of those that begin them
   later.
"""

import functools

from pyrdv.api.call import ALARM
from pyrdv.api.constants import ANY_SOURCE
from pyrdv.api.prepared import persistent
from pyrdv.api.schedule import Schedule
from pyrdv.api.shelf import schedule_of
from pyrdv.collectives import aftermath, causes, kinds
from pyrdv.errors import CollectiveError, Error


class Plan(Schedule):
    """A schedule under construction."""

    __slots__ = ()

    @property
    def name(self):
        """What the call does, for errors."""
        return kinds.NAMES[self.kind]

    def alarmed(self):
        """Read alarms; `end` it if one concerns it, or a member is gone."""
        aftermath.read(self.view)
        cause = aftermath.cause_of(self.view, self.tag)
        if cause is None:
            return
        if not self.has_failed:     # else its own failure is told
            aftermath.note(self.view, self.tag, cause)
        self.end(self.exception(cause))
        for rank in aftermath.given_up(self.view, self.tag):
            self.excuse(rank)

    def exception(self, cause):
        """The exception for what other members said of the call."""
        return cause.exception(f"{self.name} in {self.view.name}")

    def fell(self, failure):
        """It has failed: the others are told, who may wait for what does not come any more."""
        led = isinstance(failure, CollectiveError) and not failure.cause
        aftermath.note(self.view, self.tag,
                       causes.led(self.view) if led else causes.of(failure, self.view))

    def refuse(self, error):
        """It cannot start, or not be built, in this process: the others are told."""
        aftermath.note(self.view, self.tag, causes.of(error, self.view))
        self.leave()

    def launch(self):
        """Start it, unless it failed on another rank before: then its request says so."""
        try:
            request = self.begin()
            if request is not None:
                return request
            aftermath.sweep(self.view)
            cause = aftermath.cause_of(self.view, self.tag)
            if cause is None:
                return self.start()
            aftermath.note(self.view, self.tag, cause)
        except BaseException as error:
            self.refuse(error)
            raise
        self.leave()
        return self.failed(self.exception(cause))

    def carry_out(self, asks=False):
        """Start it, and wait for its end.

        `asks`: it fails, too, if others have said so by the time it is complete here.  A root that
        gave up may have let go of its buffer while that was read.  All calls but broadcasts end
        with messages that say so (`confirm`), or need every member.
        """
        view, tag, request = self.view, self.tag, self.launch()
        try:
            request.Wait()
        except BaseException as error:
            told = self.failed_by(view, request, error)
            if told is None:
                raise
        else:
            if not asks or not self.called():
                return
            told = self.told_late(view, tag)
            if told is None:
                return
        try:
            raise told
        finally:
            # An exception that its own frame names is a cycle, which keeps the user's buffers.
            del told

    def told_late(self, view, tag):
        """The exception for what others have said of a call that is complete here; or None."""
        aftermath.read(view)
        cause = aftermath.cause_of(view, tag)
        if cause is None:
            return None
        aftermath.note(view, tag, cause)
        aftermath.sweep(view)
        return cause.exception(f"{self.name} in {view.name}")

    def failed_by(self, view, request, error):
        """Clean up; the exception to raise, None for `error` itself.

        Who was led to fail does not know why: the rank that failed first tells all others.
        """
        led = isinstance(error, CollectiveError) and not error.cause
        while led and aftermath.cause_of(view, self.tag).is_led:
            view.Probe(ANY_SOURCE, ALARM)
            aftermath.read(view)
        if request:
            self.give_up(request, error)
        cause = aftermath.cause_of(view, self.tag)
        aftermath.sweep(view)
        return cause.exception(f"{self.name} in {view.name}") if led else None

    def give_up(self, request, error):
        """Have nothing written into its buffers any more; a second interrupt ends that wait."""
        aftermath.note(self.view, self.tag, causes.of(error, self.view))
        self.end(error)
        try:
            request.Wait()
        except Error:
            return

    def confirm(self):
        """Nobody ends before all have come here, and none in good order if one has failed.

        A `dissemination` barrier whose messages have a byte: those of a rank that has failed are
        empty, which is a failure of their receiver (L4).
        """
        self.then()
        tokens, distance, at = self.scratch(1 + self.size.bit_length()), 1, 1
        while distance < self.size:
            self.receive(tokens[at:at + 1], (self.rank - distance) % self.size)
            self.send(tokens[:1], (self.rank + distance) % self.size)
            self.then()
            distance, at = 2 * distance, at + 1

    def private(self, view):
        """A copy of some bytes that is made whenever the schedule starts."""
        room = self.scratch(view.nbytes)
        self.copy(view, room)
        return room


def built(build, comm, kind, *args):
    """The plan of ``build(plan, *args)``; errors as `start`."""
    plan = Plan(comm, kind)
    try:
        build(plan, *args)
    except BaseException as error:
        plan.refuse(error)
        raise
    return plan


def confirmed(build):
    """A builder of a call that ends on all ranks, or on none: as `build`, and `confirm`."""
    @functools.wraps(build)
    def both(plan, *args):
        build(plan, *args)
        plan.confirm()
    return both


def carry_out(build, comm, kind, *args):
    """Build a schedule by ``build(plan, *args)``, start it, and wait for its end.

    Raises
    ------
    CommunicatorError, FinalizedError, ForkedError
        The communicator cannot be used.
    CollectiveError
        It failed on another rank, before this one had what it needs.
    PeerLostError
        A member is gone.
    """
    schedule_of(built, build, comm, kind, args).carry_out()


def carry_out_and_ask(build, comm, kind, *args):
    """`carry_out` of a call that others may fail when it is complete here (`Plan.carry_out`)."""
    schedule_of(built, build, comm, kind, args).carry_out(True)


def start(build, comm, kind, *args):
    """Build a schedule by ``build(plan, *args)``, and start it.

    Returns
    -------
    Request

    Raises
    ------
    CommunicatorError, FinalizedError, ForkedError
        The communicator cannot be used.
    """
    return schedule_of(built, build, comm, kind, args).launch()


def prepare(build, comm, kind, *args):
    """Build a schedule by ``build(plan, *args)``; a persistent request that starts it.

    Raises
    ------
    CommunicatorError, FinalizedError, ForkedError
        The communicator cannot be used.
    """
    return persistent(comm, built(build, comm, kind, *args))
