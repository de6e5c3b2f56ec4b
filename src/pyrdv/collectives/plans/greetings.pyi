"""Greetings: by which members that take different algorithms find out."""

from collections.abc import Callable

from .starting import Plan

GREETING: int
OTHER_GREETING: int

def greeting(build: Callable[..., None], length: int = ...) -> Callable[..., None]: ...
def greeted_down(plan: Plan, root: int) -> tuple[memoryview, list[int]]: ...
def greet_up(plan: Plan, root: int) -> None: ...
