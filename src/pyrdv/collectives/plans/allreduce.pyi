"""Allreduces."""

from ...api.datatypes import Datatype
from ...api.ops import Op
from .starting import Plan

def doubling(
    plan: Plan, mine: memoryview, result: memoryview, datatype: Datatype, op: Op
) -> None: ...
def halving(
    plan: Plan, mine: memoryview, result: memoryview, datatype: Datatype, op: Op
) -> None: ...
def ring(
    plan: Plan, mine: memoryview, result: memoryview, datatype: Datatype, op: Op
) -> None: ...
