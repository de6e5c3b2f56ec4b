from typing import Any

REASONS: dict[int, str]
CHOICES: dict[str, int]

def eager_limit(profile: dict[str, Any], most: int = 0) -> int: ...
def explain(
    profile: dict[str, Any],
    size: int,
    *,
    eager: int = 0,
    protocol: str = "auto",
    pins: bool = True,
    uses: float = 0.0,
    waited: bool = True,
    standing: bool = False,
    offered: bool = False,
    buffer: int = 0,
) -> tuple[str, str, float, float]: ...
