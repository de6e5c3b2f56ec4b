from typing import Any

REASONS: dict[int, str]
CHOICES: dict[str, int]

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
    buffer: int = 131072,
) -> tuple[str, str, float, float]: ...
