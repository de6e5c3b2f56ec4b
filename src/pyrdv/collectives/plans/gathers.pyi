"""One block per member, to or from a root."""

from ..arguments import Blocks
from .starting import Plan

def linear_gather(
    plan: Plan, mine: memoryview | bytes | None, into: Blocks | None, root: int
) -> None: ...
def binomial_gather(
    plan: Plan, mine: memoryview | bytes | None, into: Blocks | None, root: int
) -> None: ...
def linear_scatter(
    plan: Plan, blocks: Blocks | None, room: memoryview | None, root: int
) -> None: ...
def binomial_scatter(
    plan: Plan, blocks: Blocks | None, room: memoryview | None, root: int
) -> None: ...
def others(plan: Plan) -> list[int]: ...
