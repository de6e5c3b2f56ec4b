"""Agreement on the number of a new communicator."""

from ..api.communicator import Comm

LIMIT: int
RESERVED: int

def agree(comm: Comm) -> int: ...

# `engine` is a communicator's attribute of that name.
def release(engine: object, number: int) -> None: ...
