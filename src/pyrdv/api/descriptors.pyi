"""Methods that a class takes over from the extension types above it."""

from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

def own_methods(cls: _Class) -> _Class: ...
