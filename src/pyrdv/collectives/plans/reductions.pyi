"""Reductions."""

from collections.abc import Callable, Iterable
from typing import Any

from ...api.ops import Op
from ..arguments import Shares
from .starting import Plan

def recursive_doubling(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op) -> None: ...
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
