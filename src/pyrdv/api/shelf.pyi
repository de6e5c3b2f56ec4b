"""Schedules that are over, kept for the next call of the same shape."""

from collections.abc import Callable
from typing import Any

from .communicator import Comm
from .schedule import Schedule

class Shelf:
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def keep(self, plan: Schedule) -> None: ...

def schedule_of(
    factory: Callable[..., Schedule],
    build: Callable[..., None],
    comm: Comm,
    kind: int,
    args: tuple[Any, ...],
) -> Schedule: ...
