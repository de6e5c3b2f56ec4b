"""What every communicator is: an engine, members, contexts."""

from typing import Any, Self

from ..engine.engine import Engine
from .group import Members
from .info import Info

class Identity:
    info: Info | None
    @property
    def locks(self) -> dict[str, Any]: ...

class CommBase:
    def __new__(cls, comm: CommBase | None = None) -> Self: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def members(self) -> Members: ...
    @property
    def freed(self) -> bool: ...
    @property
    def context_number(self) -> int: ...
