"""A signal borrows the thread that posted an operation which still needs a trigger."""

from typing import Self

from ..engine.engine import Engine

class Parasite:
    def __new__(
        cls,
        engine: Engine,
        phase: int = 2,
        period: int = 10,
        decay: int = 2,
        turn_limit: int = 100,
        share: int = 2,
        by_hand: bool = False,
        trigger: str = "timer",
    ) -> Self: ...
    def begin(self, engine: Engine) -> None: ...
    def end(self) -> None: ...
    def fire(self) -> bool: ...
    def facts(self) -> dict[str, int | str]: ...
