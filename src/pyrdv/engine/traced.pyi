"""What the trace tells, for Python."""

from typing import NamedTuple

from ..recorded import Event, Scale, Words
from .engine import Engine

STATES: dict[int, str]
PACKAGE: str
SIDES: dict[int, str]

class Operation(NamedTuple):
    side: str
    state: str
    peer: int
    context: int
    tag: int
    nbytes: int
    protocol: str | None
    reason: str | None
    age: float
    line: str
    sync: bool
    waits: bool
    object: bool

def operations(engine: Engine) -> list[Operation]: ...
def unexpected(engine: Engine) -> tuple[int, list[tuple[int, int, int, int]]]: ...
def scale(engine: Engine) -> Scale: ...
def words(engine: Engine | None = None) -> Words: ...
def record(path: str, rank: int, size: int, host: str) -> int: ...
def events(engine: Engine) -> list[Event]: ...
