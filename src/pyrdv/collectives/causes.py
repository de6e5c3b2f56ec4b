"""Why a collective call failed, and the exception that says so on the other ranks."""

import builtins
from typing import NamedTuple

from pyrdv import errors
from pyrdv.errors import CollectiveError, Error, PeerLostError

#: Bytes of an alarm at most: it must be one small message.
LIMIT = 2048
#: Classes that mean something to the interpreter where they are raised.
_OF_THE_INTERPRETER = ("StopIteration", "StopAsyncIteration")


class Cause(NamedTuple):
    """What went wrong in a call.

    `lost` is the rank that is gone, or -1; `name` the class of the exception on rank `origin`,
    empty if that was led to fail by another one, and does not know why.
    """

    origin: int
    lost: int
    name: str
    text: str

    @property
    def is_led(self):
        """Whether it says that a rank has failed, and not why."""
        return not self.name

    def pack(self, tag):
        """The bytes of an alarm for the call under `tag`."""
        fields = (str(tag), str(self.origin), str(self.lost), self.name, self.text)
        return "\0".join(fields).encode("utf-8", "replace")[:LIMIT]

    def exception(self, what):
        """The exception for a rank that was told."""
        if self.lost >= 0:
            return PeerLostError(f"{what}: {self.text}", peer=self.lost, reason=self.text)
        if self.is_led:
            return CollectiveError(
                f"{what} failed on rank {self.origin}, which was led to it; the rank that failed "
                "first says why", rank=self.origin, cause="")
        return _class_like(self.name)(
            f"{what} failed on rank {self.origin}: {self.name}: {self.text}; so it failed on all "
            "ranks, and the next call is not affected", rank=self.origin,
            cause=f"{self.name}: {self.text}")


def unpack(data):
    """``(tag, cause)`` of an alarm; None if it is malformed."""
    fields = bytes(data).decode("utf-8", "replace").split("\0", 4)
    try:
        tag, origin, lost = (int(field) for field in fields[:3])
        return tag, Cause(origin, lost, *fields[3:])
    except (TypeError, ValueError):
        return None


def led(comm):
    """What a rank of `comm` tells that was led to fail."""
    return Cause(comm.rank, -1, "", "")


def better(known, new):
    """Of two causes of one call, or None, the first one that says why."""
    return new if known is None or known.is_led and new is not None else known


def of(error, comm):
    """The cause that `error`, raised in this process, is for the other members of `comm`."""
    lost = -1
    # An operation of the user may have lost a rank of another communicator.
    if isinstance(error, PeerLostError) and error.communicator == comm.context_number:
        lost = error.peer
    name = next(cls.__name__ for cls in type(error).__mro__ if _known(cls.__name__) is cls)
    try:
        text = str(error)
    except Exception:       # that of a user's class
        text = type(error).__name__
    return Cause(comm.rank, lost, name, text.replace("\0", ""))


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
