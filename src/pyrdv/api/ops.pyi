"""Reduction operations, on Python objects and on buffers."""

from collections.abc import Callable
from typing import Any

from typing_extensions import Buffer

from .buffers import Spec
from .datatypes import Datatype
from .naming import Offers

class Op(metaclass=Offers):
    def __init__(self, op: Op | None = None) -> None: ...
    @classmethod
    def Create(
        cls, function: Callable[[Any, Any, Any], Any], commute: bool = False
    ) -> Op: ...
    def Free(self) -> None: ...
    def free(self) -> None: ...
    def Is_commutative(self) -> bool: ...
    @property
    def is_commutative(self) -> bool: ...
    @property
    def is_predefined(self) -> bool: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __call__(self, x: Any, y: Any) -> Any: ...
    def check(self, datatype: Datatype) -> None: ...
    def reduce_local(self, inbuf: Buffer, inoutbuf: Buffer, datatype: Datatype) -> None: ...
    def Reduce_local(self, inbuf: Spec, inoutbuf: Spec) -> None: ...

PREDEFINED_OPS: dict[str, Op]
OP_NULL: Op
MAX: Op
MIN: Op
SUM: Op
PROD: Op
LAND: Op
BAND: Op
LOR: Op
BOR: Op
LXOR: Op
BXOR: Op
MAXLOC: Op
MINLOC: Op
REPLACE: Op
NO_OP: Op
