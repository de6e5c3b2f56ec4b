"""Buffered sends: how much of an attached buffer they use."""

from collections.abc import Callable
from typing import Any

from typing_extensions import Buffer

from ..engine.engine import Engine
from .request import Request

def attach(engine: Engine, buffer: Buffer) -> None: ...
def detach(engine: Engine, wait: Callable[[Request], Any]) -> Buffer | None: ...
def reserve(engine: Engine, nbytes: int) -> None: ...
def note(engine: Engine, request: Request, nbytes: int) -> None: ...
