"""Barriers."""

from .starting import Plan

def dissemination(plan: Plan) -> None: ...
