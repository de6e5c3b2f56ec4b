"""Vectors that are combined by exchanges between ranks whose places differ in one bit."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...api.datatypes import Datatype
from ...api.ops import Op
from .starting import Plan

class Folding(NamedTuple):
    op: Op
    datatype: Datatype
    mine: memoryview
    result: memoryview
    other: memoryview
    power: int
    place: int | None
    rank_of: Callable[[int], int]
    def exchange(self, plan: Plan, number: int, bit: int, given: slice, kept: slice) -> int: ...
    def halve(self, plan: Plan, bound: Sequence[int]) -> list[tuple[int, slice, slice]]: ...

def paired(
    plan: Plan, op: Op, datatype: Datatype, mine: memoryview, result: memoryview
) -> Folding: ...
