"""Waiting in the caller: spin, yield, sleep."""

from collections.abc import Callable

from ..engine.engine import Engine

LOOK_NS: int

def patience(longer: int, yields: int, waited: int, came: bool) -> int: ...
def wait_until(
    engine: Engine,
    condition: Callable[[], object],
    timeout: float | None = None,
    lacking: Callable[[Engine], object] | None = None,
) -> bool: ...
