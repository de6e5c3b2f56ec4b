"""Collective calls on objects, one at a time per communicator and kind."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

def in_turn(method: Callable[_P, _R]) -> Callable[_P, _R]: ...
