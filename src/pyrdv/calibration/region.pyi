"""A buffer that is registered with a fabric, for what drives one without an engine."""

from typing_extensions import Buffer

from ..fabrics.contract import Fabric

LOCAL: int
REMOTE_READ: int
REMOTE_WRITE: int

class Region:
    @property
    def key(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def length(self) -> int: ...
    def deregister(self) -> None: ...

def region_of(fabric: Fabric, buffer: Buffer, access: int) -> Region: ...
