"""Agreement on the number of a new communicator."""

from ..api.communicator import Comm
from ..engine.engine import Engine

LIMIT: int
RESERVED: int

def agree(comm: Comm) -> int: ...
def release(engine: Engine, number: int) -> None: ...
