"""Drives any fabric from Python, one operation at a time, for tests and tools."""

from typing import Any

from typing_extensions import Buffer

from ..calibration.region import Region
from ..fabrics.contract import Fabric

OK: int
AGAIN: int
LOST: int
INVALID: int
FAILED: int
PACKET: int
READ: int
WRITE: int
CLOSED: int
PEER_LOST: int
LOCAL: int
REMOTE_READ: int
REMOTE_WRITE: int
FENCE: int
BEHIND: int
SIGNALED: int

class Driver:
    def __new__(cls, fabric: Fabric) -> Driver: ...
    @property
    def fabric(self) -> Fabric: ...
    @property
    def able_behind(self) -> bool: ...
    @property
    def free_sinks(self) -> bool: ...
    @property
    def calm(self) -> bool: ...
    @property
    def packet_max(self) -> int: ...
    @property
    def eager_max(self) -> int: ...
    @property
    def transfer_max(self) -> int: ...
    @property
    def error(self) -> int: ...
    @property
    def wake_fd(self) -> int: ...
    def connect(self, peer: int) -> int: ...
    def disconnect(self, peer: int) -> None: ...
    def maintain(self) -> int: ...
    def arm(self) -> int: ...
    def disarm(self) -> None: ...
    def register(self, buffer: Buffer, access: int = 7) -> Region: ...
    @staticmethod
    def send_request(
        header: Buffer, payload: Buffer = b"", flags: int = 0
    ) -> tuple[Any, ...]: ...
    @staticmethod
    def read_request(
        sink: Region,
        offset: int,
        remote: int,
        remote_key: int,
        length: int,
        ident: int = 0,
        flags: int = 1,
    ) -> tuple[Any, ...]: ...
    @staticmethod
    def write_request(
        source: Region,
        offset: int,
        remote: int,
        remote_key: int,
        length: int,
        ident: int = 0,
        flags: int = 1,
    ) -> tuple[Any, ...]: ...
    def post(self, peer: int, *requests: tuple[Any, ...]) -> int: ...
    def send(self, peer: int, header: Buffer, payload: Buffer = b"") -> int: ...
    def read(
        self,
        peer: int,
        sink: Region,
        remote: int,
        remote_key: int,
        length: int,
        ident: int = 0,
        offset: int = 0,
    ) -> int: ...
    def write(
        self,
        peer: int,
        source: Region,
        remote: int,
        remote_key: int,
        length: int,
        ident: int = 0,
        offset: int = 0,
    ) -> int: ...
    def discard(self, peer: int, ident: int) -> bool: ...
    def poll(self, limit: int = 256, release: bool = True) -> list[tuple[Any, ...]]: ...
    def release(self, peer: int, count: int) -> None: ...
