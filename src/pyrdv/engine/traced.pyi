"""What the trace tells, for Python."""

from typing import NamedTuple

from .engine import Engine

KINDS: dict[int, str]
STATES: dict[int, str]
PACKAGE: str
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
    line: str

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
def lost(engine: Engine) -> int: ...
def events(engine: Engine) -> list[Event]: ...
