"""Reductions whose result is scattered."""

from ...api.ops import Op
from ..arguments import Shares
from .starting import Plan

def spread(plan: Plan, given: Shares, op: Op) -> None: ...
def halving(plan: Plan, given: Shares, op: Op) -> None: ...
