"""What a user passes as a message, turned into an address and a size."""

from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from typing_extensions import Buffer

from .datatypes import Datatype

class SupportsDLPack(Protocol):
    """A tensor of another library."""

    # The parameters of the protocol grew from version to version; libraries follow as they can.
    @property
    def __dlpack__(self) -> Any: ...
    @property
    def __dlpack_device__(self) -> Any: ...

class BottomType(int):
    def __new__(cls) -> Self: ...

class InPlaceType(int):
    def __new__(cls) -> Self: ...

BOTTOM: BottomType
IN_PLACE: InPlaceType

#: Memory. NumPy's arrays are named because they are a `Buffer` to type checkers from 3.12 on only.
Memory: TypeAlias = Buffer | np.ndarray[Any, Any] | SupportsDLPack
#: None and BOTTOM hold no bytes.
MemoryOrNone: TypeAlias = Memory | BottomType | None
Count: TypeAlias = int | tuple[int, int] | None
Type: TypeAlias = Datatype | str | np.dtype[Any]
#: A buffer, or a list or tuple [buffer, count, displacement, type] in one of its shorter forms.
Spec: TypeAlias = (
    MemoryOrNone
    | tuple[MemoryOrNone, Count]
    | tuple[MemoryOrNone, Type]
    | tuple[MemoryOrNone, Count, Type]
    | tuple[MemoryOrNone, Count, int, Type]
    | list[Any]
)

class Export: ...
class Elements: ...

def parse(
    spec: Spec, *, writable: bool = False
) -> tuple[int, int, int, Datatype, object]: ...
def parse_views(spec: Spec, *, writable: bool = False) -> tuple[memoryview, Datatype]: ...
def span_of(spec: Spec, *, writable: bool = False) -> tuple[int, int, int, int, object]: ...
