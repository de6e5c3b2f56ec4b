"""Waiting in the caller: spin, yield, sleep."""

from collections.abc import Callable

from ..engine.engine import Engine

def wait_until(
    engine: Engine, condition: Callable[[], object], timeout: float | None = None
) -> bool: ...
