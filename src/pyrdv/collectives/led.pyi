"""Agreement of a group that has no communicator."""

from collections.abc import Callable

from ..api.communicator import Comm

def fold(
    view: Comm, mine: bytes, tag: int, function: Callable[[list[bytes]], bytes]
) -> bytes: ...
