"""Timed loops on a bare fabric: what it costs without an engine above it."""

from typing_extensions import Buffer

from ..fabrics.contract import Fabric
from .region import Region

class Meter:
    def __new__(
        cls, fabric: Fabric, peer: int, active: bool, timeout: float = 30
    ) -> Meter: ...
    @property
    def fabric(self) -> Fabric: ...
    @property
    def peer(self) -> int: ...
    @property
    def active(self) -> bool: ...
    def join(self) -> None: ...
    def swap(self, first: int = 0, second: int = 0) -> tuple[int, int]: ...
    def packets_back_and_forth(
        self, payload: bytes, turns: int, samples: int
    ) -> list[float]: ...
    def writes_back_and_forth(
        self,
        source: Region,
        remote: int,
        remote_key: int,
        length: int,
        turns: int,
        samples: int,
    ) -> list[float]: ...
    def writes_in_a_row(
        self,
        source: Region,
        remote: int,
        remote_key: int,
        length: int,
        count: int,
        samples: int,
    ) -> list[tuple[float, float]]: ...
    def reads_in_a_row(
        self,
        sink: Region,
        remote: int,
        remote_key: int,
        length: int,
        turns: int,
        samples: int,
    ) -> list[float]: ...
    def registered_back_and_forth(
        self, memory: Buffer, turns: int, samples: int
    ) -> list[float]: ...
    def copied_back_and_forth(
        self,
        memory: Buffer,
        source: Region,
        sink: Region,
        remote: int,
        remote_key: int,
        turns: int,
        samples: int,
    ) -> list[float]: ...
