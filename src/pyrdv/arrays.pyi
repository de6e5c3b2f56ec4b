"""Arrays in registered memory, and what becomes of registrations."""

from typing import Any, Literal

import numpy.typing as npt

from .api.pinned import Pinned
from .memory.allocator import RegisteredMemory

__all__ = ["empty", "register", "registered_memory", "release", "zeros"]

def empty(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike = ..., order: Literal["C", "F"] = "C"
) -> npt.NDArray[Any]: ...
def zeros(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike = ..., order: Literal["C", "F"] = "C"
) -> npt.NDArray[Any]: ...
def registered_memory() -> RegisteredMemory: ...
def register(buf: Any) -> Pinned: ...
def release(buf: Any) -> bool: ...
