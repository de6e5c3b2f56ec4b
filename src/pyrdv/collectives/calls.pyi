"""How a collective call is made, and how it fails."""

from collections.abc import Callable
from typing import Any

from ..api.call import Call
from ..api.communicator import Comm

class CollectiveCall(Call):
    @property
    def name(self) -> str: ...
    def look_back(self) -> None: ...
    def has_given_up(self, rank: int) -> bool: ...

def run(function: Callable[..., Any], comm: Comm, kind: int, *args: Any) -> Any: ...
