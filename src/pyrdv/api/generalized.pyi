"""Generalized requests: the user says when they are complete."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from .communicator import Comm
from .request import Request

class Grequest(Request):
    home: ClassVar[Comm | None]
    def __new__(cls, request: Request | None = None) -> Self: ...
    @classmethod
    def Start(
        cls,
        query_fn: Callable[..., object] | None = None,
        free_fn: Callable[..., object] | None = None,
        cancel_fn: Callable[..., object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Self: ...
    def Complete(self) -> None: ...
    def Cancel(self) -> None: ...
    def cancel(self) -> None: ...
    def Free(self) -> None: ...
    def complete(self, obj: Any = None) -> None: ...
