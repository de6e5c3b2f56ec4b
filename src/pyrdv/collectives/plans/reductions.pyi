"""Reductions to one rank, or up to each rank."""

from typing import Any

from ...api.ops import Op
from .starting import Plan

def binomial(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> None: ...
def prefix(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op, inclusive: bool) -> None: ...
