"""How a collective call that does not block is made."""

from collections.abc import Callable
from typing import Any

from ...api.communicator import Comm
from ...api.request import Request
from ...api.schedule import Schedule

class Plan(Schedule):
    @property
    def name(self) -> str: ...
    def failure(self) -> BaseException | None: ...

def start(build: Callable[..., Any], comm: Comm, kind: int, *args: Any) -> Request: ...
