"""How a collective call that does not block is made.

What must hold:

1. All members make the calls of one communicator in one order, those that do not block included.
2. A builder reads its arguments before it adds anything, and looks at no buffer's contents.
3. The rounds are a function of the kind, the sizes, the root, and the ranks: each message has its
   receive on the other side, and those between two ranks are in one order.
4. No memory is sent from and written to, or written to twice, in one round.
5. A member whose call cannot start tells each other member directly (`aftermath`), and raises.  The
   calls of those that are not done with theirs fail.
"""

from pyrdv.api.schedule import Schedule
from pyrdv.collectives import aftermath, causes, kinds


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
        failure = self.failure()
        if failure is not None:
            self.end(failure)

    def failure(self):
        """The exception for what other members said of the call, or None; they are told, too."""
        cause = aftermath.cause_of(self.view, self.tag)
        if cause is None:
            return None
        aftermath.note(self.view, self.tag, cause)
        return cause.exception(f"{self.name} in {self.view.name}")


def start(build, comm, kind, *args):
    """Build a schedule by ``build(plan, *args)``, and start it.

    Returns
    -------
    Request

    Raises
    ------
    CommunicatorError, FinalizedError, ForkedError
        The communicator cannot be used.
    CollectiveError
        It failed on another rank already.
    PeerLostError
        A member is gone.
    """
    plan = Plan(comm, kind)
    failure = None
    try:
        build(plan, *args)          # first: what is wrong here is raised here
        if plan.called() or plan.view.identity.aftermath is not None:
            aftermath.sweep(plan.view)
            failure = plan.failure()
        if failure is None:
            return plan.start()
    except BaseException as error:
        aftermath.note(plan.view, plan.tag, causes.of(error, plan.view))
        plan.leave()
        raise
    try:
        plan.leave()
        raise failure
    finally:
        # An exception that its own frame names is a cycle, which keeps the user's buffers alive.
        del failure
