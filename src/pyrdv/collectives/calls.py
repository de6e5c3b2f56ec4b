"""How a collective call is made, and how it fails: on all ranks, and without an after-effect.

What must hold:

1. Every call of one kind has a number, the same on all members (`pyrdv.api.call`).
2. Arguments are read, and objects pickled, before anything is sent.
3. If it fails on one rank, each member that is in the call, or comes to it, is told by that rank
   directly (`aftermath`), so nobody waits for a rank that was told by another and has left.
4. `Alltoall`, `Scan` and others that every rank needs from every rank end with `confirm`: they end on
   all ranks, or on none.  In the others, such as `Bcast` and `Gather`, a rank that has done its part
   returns.  If another one fails after that, the rank hears of it at its next call (`aftermath`).
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
        """End if the call has failed already, an earlier one after its end here, or a member is gone."""
        state = self.view.identity.aftermath
        if state is not None and (state.lost or self.tag in state.records
                                  or state.news is not None and self.kind != kinds.FREE):
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
        call.glance()
        state = call.view.identity.aftermath
        if state is not None and not state.rests():
            aftermath.sweep(call.view)
            call.look_back()
        return function(call, *args)
    except BaseException as error:
        told = _fail(call, error)
        if told is None:
            raise
    raise told


def _fail(call, error):
    """Tell the others, clean up; the exception to raise, None for `error` itself."""
    view, told = call.view, isinstance(error, _ToldError)
    state = aftermath.of(view)
    record = state.record(call.tag)
    if not told:
        cause = causes.of(error, view, call.tag)
    else:
        cause = record.cause or state.news or next(
            iter(state.lost.values()), causes.of(error, view, call.tag))
    aftermath.note(view, call.tag, cause)
    call.withdraw(call.has_given_up)
    call.end()
    aftermath.sweep(view)
    return cause.exception(call.name, f" in {view.name}", call.tag) if told else None
