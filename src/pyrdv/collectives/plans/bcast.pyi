"""Broadcasts."""

from typing import Any

from .starting import Plan

def binomial(plan: Plan, buf: Any, root: int) -> None: ...
