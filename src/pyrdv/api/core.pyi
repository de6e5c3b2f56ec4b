"""What every communicator is: an engine, members, contexts."""

from typing import Self

from ..engine.engine import Engine
from .group import Members

class CommBase:
    def __new__(
        cls, engine: Engine, members: Members, context: int, label: str = ""
    ) -> Self: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def members(self) -> Members: ...
    @property
    def freed(self) -> bool: ...
    @property
    def context_number(self) -> int: ...
