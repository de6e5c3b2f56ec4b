"""Agreement on the number of a new communicator."""

from collections.abc import Callable

from ..api.communicator import Comm

LIMIT: int
RESERVED: int

def agree(comm: Comm, check: Callable[[], None] | None = None) -> int: ...
def agree_among(view: Comm, tag: int) -> int: ...
def leave(comm: Comm) -> None: ...
# `engine` is a communicator's attribute of that name.
def release(engine: object, number: int) -> None: ...
