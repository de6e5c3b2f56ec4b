"""Waiting in the caller."""

from collections.abc import Callable

from ..engine.engine import Engine

LOOK_NS: int

def wait_until(
    engine: Engine,
    condition: Callable[[], object],
    timeout: float | None = None,
    lacking: Callable[[Engine], object] | None = None,
) -> bool: ...
