"""What a communicator remembers of collective calls that failed.

What must hold:

1. A rank on which a call fails, or that is told so, sends one alarm for it to each other member,
   and nothing else of that call after it.  Messages between two ranks come in order, so once the
   alarm of a member is here, so is all that this member sent in the call.
2. A rank that has left the call in good order, before it was told, answers with an alarm, too.
   So everyone hears from everyone; then nothing of the call is left anywhere.
3. Until then what comes of such a call is taken and thrown away, at the next collective call on
   the communicator: it never stays for good, and its sender does not wait for good.
4. A member that is gone stays gone: whoever learns of it says so, and no later collective call on
   the communicator can succeed.
5. An alarm that names a lost member speaks of all calls on the communicator, not only of its own:
   its sender has finished the earlier ones, and fails in later ones before it sends anything.  So
   what it owed in any of them came before the alarm, and nobody waits for that rank any more
   (`has_given_up`): it may make no further call.
"""

from pyrdv.api.call import ALARM, alarm, kind_and_number
from pyrdv.api.constants import ANY_SOURCE
from pyrdv.api.probe import take
from pyrdv.collectives import causes, kinds
from pyrdv.errors import Error


class Record:
    """A call that failed: why, which members were heard, and whether they were told."""

    __slots__ = ("cause", "heard", "told")

    def __init__(self):
        self.cause = None
        self.heard = set()
        self.told = False


class Aftermath:
    """The calls of one communicator that failed, by the tag of their messages.

    Attributes
    ----------
    records : dict of int to Record
    lost : dict of int to Cause
        Members that are gone.
    aware : set of int
        Members that said so of any: they send nothing but alarms now.
    closing : bool
        The communicator is being freed: nobody is told anything any more.
    """

    __slots__ = ("records", "lost", "aware", "closing")

    def __init__(self):
        self.records = {}
        self.lost = {}
        self.aware = set()
        self.closing = False

    def record(self, tag):
        """The record of a call; made if there is none."""
        return self.records.get(tag) or self.records.setdefault(tag, Record())


def of(view):
    """The aftermath of a communicator; made if there is none."""
    identity = view.identity
    if identity.aftermath is None:
        identity.aftermath = Aftermath()
    return identity.aftermath


def is_gone(view, rank):
    """Whether a member has ended."""
    if not 0 <= rank < view.size:
        return False
    return view.engine.peer_states()[view.members.world_ranks()[rank]] in ("lost", "closed")


def note(view, tag, cause):
    """A call failed in this process."""
    state = of(view)
    record = state.record(tag)
    record.cause = causes.better(record.cause, cause)
    if cause.lost >= 0:
        state.lost.setdefault(cause.lost, cause)
    tell(view, tag)
    view.identity.ring()


def tell(view, tag):
    """Send the alarm of this rank for a call, once."""
    state = of(view)
    record = state.record(tag)
    if record.told or state.closing:
        return
    record.told = True
    cause = record.cause
    if cause.lost < 0:
        # A loss goes first: the others must know that this rank is aware of it.
        cause = next(iter(state.lost.values()), cause)
    data = cause.pack(tag)
    for rank in range(view.size):
        if rank == view.rank or rank in state.lost:
            continue
        try:
            alarm(view, data, rank)
        except Error:
            pass        # it is gone, and is not waiting


def read(view):
    """Read the alarms that are here, and answer those for calls that ended well in this process."""
    state = of(view)
    while (message := take(view, ANY_SOURCE, ALARM)) is not None:
        source, data = message.source, bytearray(message.nbytes)
        message.Recv(data)
        found = causes.unpack(data)
        place = found and kind_and_number(found[0])
        if not place:
            continue
        tag, cause = found
        record = state.record(tag)
        record.heard.add(source)
        record.cause = causes.better(record.cause, cause)
        if 0 <= cause.lost < view.size:
            state.aware.add(source)
            if cause.lost != view.rank:
                state.lost.setdefault(cause.lost, cause)
        if _is_over(view, *place):
            tell(view, tag)
        view.identity.ring()


def cause_of(view, tag):
    """Why a call failed, here or on another rank; None if nothing is known of that.

    A member that is gone fails all calls.
    """
    state = view.identity.aftermath
    if state is None:
        return None
    record = state.records.get(tag)
    return record and record.cause or next(iter(state.lost.values()), None)


def _is_over(view, kind, number):
    """Whether this process began a call, and is surely not in it any more."""
    if kind in kinds.UNDER_WAY:
        return view.identity.is_begun(kind, number) and view.identity.is_idle(kind)
    return view.identity.is_over(kind, number)


def has_given_up(view, tag, rank):
    """Whether `rank` owes nothing to a call any more; reads alarms first."""
    read(view)
    state = of(view)
    return rank in state.aware or rank in state.record(tag).heard


def given_up(view, tag):
    """The members of which `has_given_up` is known."""
    state = of(view)
    return state.aware | state.record(tag).heard


def sweep(view):
    """Take and throw away what is here of calls that failed; forget those that are done with."""
    state = of(view)
    read(view)
    others = {rank for rank in range(view.size) if rank != view.rank and rank not in state.lost}
    for tag, record in list(state.records.items()):
        place = kind_and_number(tag)
        is_over = _is_over(view, *place)
        if is_over:
            tell(view, tag)
        if not record.told and not (state.closing and is_over):
            continue        # to come, or somebody is in it
        waiting = {rank for rank in others - record.heard if not is_gone(view, rank)}
        discard(view, tag, place[0] in kinds.OF_OBJECTS)
        if not waiting:
            state.records.pop(tag, None)
    if not state.records and not state.lost and view.identity.aftermath is state:
        view.identity.aftermath = None


def discard(view, tag, objects):
    """Take and throw away what is here under `tag`."""
    while (message := take(view, ANY_SOURCE, tag)) is not None:
        # Dropped, both are received to their end, so that the sender is free.
        if objects:
            message.irecv().is_complete()       # a look at the head starts on its parts
        else:
            message.Irecv(bytearray(0))
