"""Reductions."""

from typing import Any

from ...api.ops import Op
from .starting import Plan

def recursive_doubling(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op) -> None: ...
def binomial(plan: Plan, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> None: ...
