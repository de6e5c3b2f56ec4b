"""Python owner of one shm fabric: construction, addresses, counters."""

from collections.abc import Sequence
from typing import Literal

from ..contract import Fabric

class ShmFabric(Fabric):
    def __new__(
        cls,
        rank: int,
        size: int,
        token: bytes,
        single_copy: Literal["auto", "on", "off"] = "auto",
    ) -> ShmFabric: ...
    @property
    def address(self) -> bytes: ...
    @property
    def closed(self) -> bool: ...
    @property
    def counters(self) -> dict[str, int]: ...
    def set_peers(self, addresses: Sequence[bytes | None]) -> None: ...
    def last_words(self, text: str) -> None: ...
    def close(self) -> None: ...
