"""Names that mpi4py's classes have and ours have not: in the classes, for whoever asks for them."""

from abc import ABCMeta
from typing import Any, Never, TypeVar

_Class = TypeVar("_Class", bound=type)

class Missing:
    kind: str
    name: str
    feature: Any
    def __init__(self, kind: str, name: str, feature: Any) -> None: ...
    def __get__(self, instance: object, owner: type | None) -> Never: ...

class Offers(ABCMeta):
    def __dir__(cls) -> list[str]: ...

def name_missing(cls: _Class) -> _Class: ...
