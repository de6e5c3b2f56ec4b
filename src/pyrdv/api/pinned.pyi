"""Memory that stays registered because somebody said so."""

from types import TracebackType
from typing import Any, Self

from ..engine.engine import Engine

class Pinned:
    def __new__(cls, engine: Engine, buf: Any) -> Pinned: ...
    @property
    def nbytes(self) -> int: ...
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

def forget(engine: Engine, buf: Any) -> bool: ...
