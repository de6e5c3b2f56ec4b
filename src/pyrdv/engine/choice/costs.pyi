"""What a message costs over one fabric, and which way is the cheapest."""

from collections.abc import Mapping, Sequence
from typing import Any

def check(profile: Mapping[str, Any]) -> None: ...
def seconds(points: Sequence[Sequence[float]], size: float) -> float: ...
def predict(
    profile: Mapping[str, Any],
    size: int,
    near: float = 1.0,
    far: float = 1.0,
    buffer: int = 0,
) -> dict[str, float]: ...
def chunks(profile: Mapping[str, Any]) -> tuple[int, int]: ...
