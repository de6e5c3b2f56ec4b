"""The loops of `csrc/reduce.c`."""

from typing import Any

from .datatypes import Datatype
from .ops import Op

NUMBERS: dict[str, int]

def has_loop(op: Op, datatype: Datatype) -> bool: ...
def reduce(op: Op, datatype: Datatype, other: Any, into: Any, right: bool = False) -> None: ...
