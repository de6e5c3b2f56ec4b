"""How a collective call is made, and how it fails: on all ranks, and without an after-effect.

What must hold:

1. Every call of one kind has a number, the same on all members (`pyrdv.api.call`).
2. Arguments are read, and objects pickled, before anything is sent.
3. If it fails on one rank, each member that is in the call, or comes to it, is told by that rank
   directly (`aftermath`), so nobody waits for a rank that was told by another and has left.
4. Calls whose failure some rank could not see by itself end with `confirm`: no rank returns before
   all have got what they need.  In `Bcast` and `bcast` a rank that has done its part returns, and
   is not told of what goes wrong on another after that: to wait for it would cost a round trip.
   Results of `Allreduce`, `allreduce` and `allgather` need every rank anyway.
5. The rank on which it failed raises its own exception, the others what `causes` makes of it.
"""

from pyrdv.api.call import Call
from pyrdv.collectives import aftermath, causes, kinds


class _ToldError(Exception):
    """Ends a call in this process because another one says that it failed."""


class CollectiveCall(Call):
    """A call that listens to what others say of it."""

    __slots__ = ()

    @property
    def name(self):
        """What the call does, for errors."""
        return kinds.NAMES[self.kind]

    def alarmed(self):
        """Read alarms; end if one concerns this call, or a member is gone."""
        aftermath.read(self.view)
        self.look_back()

    def look_back(self):
        """End if the call has failed already, or a member is gone."""
        if aftermath.cause_of(self.view, self.tag) is not None:
            raise _ToldError

    def has_given_up(self, rank):
        """Whether `rank` owes nothing to this call any more."""
        return aftermath.has_given_up(self.view, self.tag, rank)


def run(function, comm, kind, *args):
    """Make a collective call: ``function(call, *args)``.

    Raises
    ------
    CollectiveError
        It failed on another rank.
    PeerLostError
        A member is gone.
    """
    call = CollectiveCall(comm, kind)
    try:
        if call.view.identity.aftermath is not None:
            aftermath.sweep(call.view)
            call.look_back()
        return function(call, *args)
    except BaseException as error:
        told = _fail(call, error)
        if told is None:
            raise
    try:
        raise told
    finally:
        # An exception that its own frame names is a cycle, which keeps the user's buffers alive.
        del told


def _fail(call, error):
    """Tell the others, clean up; the exception to raise, None for `error` itself."""
    view, told = call.view, isinstance(error, _ToldError)
    cause = aftermath.cause_of(view, call.tag) if told else causes.of(error, view)
    aftermath.note(view, call.tag, cause)
    call.withdraw(call.has_given_up)
    call.end()
    aftermath.sweep(view)
    return cause.exception(f"{call.name} in {view.name}") if told else None
