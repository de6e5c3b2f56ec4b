"""Why a collective call failed, and the exception that says so on the other ranks."""

import builtins
from typing import NamedTuple

from pyrdv import errors
from pyrdv.api.call import kind_and_number
from pyrdv.collectives import kinds
from pyrdv.errors import CollectiveError, Error, PeerLostError

#: Bytes of an alarm at most: it must be one small message.
LIMIT = 2048
#: Classes that mean something to the interpreter where they are raised.
_OF_THE_INTERPRETER = ("StopIteration", "StopAsyncIteration")


class Cause(NamedTuple):
    """What went wrong in a call.

    `lost` is the rank that is gone, or -1; `name` the class of the exception on rank `origin`; `call`
    the tag of the call in which that was.
    """

    origin: int
    lost: int
    name: str
    text: str
    call: int = -1

    @property
    def failure(self):
        """What tells one failure from another."""
        return self.origin, self.call

    def pack(self, tag):
        """The bytes of an alarm for the call under `tag`."""
        fields = (str(tag), str(self.call), str(self.origin), str(self.lost), self.name, self.text)
        return "\0".join(fields).encode("utf-8", "replace")[:LIMIT]

    def exception(self, name, where="", tag=-1):
        """The exception for a rank that was told, in call `tag`, named `name`."""
        if self.lost >= 0:
            return PeerLostError(f"{name}{where}: {self.text}", peer=self.lost, reason=self.text)
        what, end = name, "so it failed on all ranks"
        if tag != self.call:
            what = kinds.NAMES[kind_and_number(self.call)[0]]
            end = f"some ranks had left it before they were told, so {name} fails on all ranks"
        return _class_like(self.name)(
            f"{what}{where} failed on rank {self.origin}: {self.name}: {self.text}; {end}",
            rank=self.origin, cause=f"{self.name}: {self.text}")


def unpack(data):
    """``(tag, cause)`` of an alarm; None if it is malformed."""
    fields = bytes(data).decode("utf-8", "replace").split("\0", 5)
    try:
        tag, call, origin, lost = (int(field) for field in fields[:4])
        name, text = fields[4:]
        return (tag, Cause(origin, lost, name, text, call)) if _is_call(call) else None
    except (TypeError, ValueError):
        return None


def _is_call(tag):
    place = kind_and_number(tag)
    return place is not None and place[0] < len(kinds.NAMES)


def of(error, comm, call=-1):
    """The cause that `error`, raised in this process in a call, is for the others of `comm`."""
    lost = -1
    # An operation of the user may have lost a rank of another communicator.
    if isinstance(error, PeerLostError) and error.communicator == comm.context_number:
        lost = error.peer
    name = next(cls.__name__ for cls in type(error).__mro__ if _known(cls.__name__) is cls)
    try:
        text = str(error)
    except Exception:       # that of a user's class
        text = type(error).__name__
    return Cause(comm.rank, lost, name, text.replace("\0", ""), call)


def _known(name):
    """The exception of the package or of Python that is called so, or None."""
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


_classes = {}


def _class_like(name):
    """`CollectiveError` that is also what is called `name`, where that is possible."""
    found = _classes.get(name)
    if found is None:
        found = _classes[name] = _make_class(name)
    return found


def _make_class(name):
    like = _known(name)
    if like is None or not issubclass(like, Exception) or issubclass(CollectiveError, like) \
            or name in _OF_THE_INTERPRETER:
        return CollectiveError
    try:
        made = type(f"Collective{name}", (CollectiveError, like),
                    {"error_class": getattr(like, "error_class", Error.error_class)})
        made("", rank=0, cause="")
    except TypeError:       # one that wants other arguments
        return CollectiveError
    return made
