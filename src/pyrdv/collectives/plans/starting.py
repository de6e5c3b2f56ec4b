"""How a collective call that does not block is made.

What must hold:

1. All members make the calls of one communicator in one order, those that do not block included.
2. A builder reads its arguments before it adds anything, and looks at no buffer's contents.
3. The rounds are a function of the kind, the sizes, the root, and the ranks: each message has its
   receive on the other side, and those between two ranks are in one order.
4. No memory is sent from and written to, or written to twice, in one round.
"""

from pyrdv.api.schedule import Schedule
from pyrdv.collectives import kinds


class Plan(Schedule):
    """A schedule under construction."""

    __slots__ = ()

    @property
    def name(self):
        """What the call does, for errors."""
        return kinds.NAMES[self.kind]


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
    plan = Plan(comm, kind)
    build(plan, *args)
    return plan.start()
