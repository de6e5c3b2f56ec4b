"""What the trace tells, for Python."""

from typing import NamedTuple

from .engine import Engine

KINDS: dict[int, str]
SIDES: dict[int, str]

class Event(NamedTuple):
    time: float
    kind: str
    side: str
    operation: tuple[int, int] | None
    peer: int
    context: int
    tag: int
    nbytes: int
    number: int
    protocol: str | None
    reason: str | None
    cost: float
    instead: float
    error: int

def events(engine: Engine) -> list[Event]: ...
