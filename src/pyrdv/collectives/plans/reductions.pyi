"""Reductions."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...api.datatypes import Datatype
from ...api.ops import Op
from ..arguments import Shares
from .starting import Plan

WHOLE: int

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

def allreduce(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op) -> None: ...
def paired(
    plan: Plan, op: Op, datatype: Datatype, mine: memoryview, result: memoryview
) -> Folding: ...
def doubling(plan: Plan, fold: Folding) -> None: ...
def halving(plan: Plan, fold: Folding) -> None: ...
def binomial(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> None: ...
def prefix(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op, inclusive: bool) -> None: ...
def spread(
    plan: Plan,
    shares: Callable[..., Shares],
    sendbuf: Any,
    recvbuf: Any,
    counts: Iterable[int] | None,
    op: Op,
) -> None: ...
def even_shares(plan: Plan, sendbuf: Any, recvbuf: Any, counts: None, op: Op) -> Shares: ...
def given_shares(
    plan: Plan, sendbuf: Any, recvbuf: Any, counts: Iterable[int] | None, op: Op
) -> Shares: ...
