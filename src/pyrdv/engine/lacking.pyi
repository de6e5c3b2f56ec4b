"""Whether a wait cannot end because this process lacks something: a descriptor, memory, a right."""

from ..errors import ResourceError
from .engine import Engine

def error(engine: Engine, peer: int) -> ResourceError: ...
def say_last(engine: Engine, text: str) -> None: ...
