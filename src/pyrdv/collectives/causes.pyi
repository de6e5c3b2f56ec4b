"""Why a collective call failed, and the exception that says so on the other ranks."""

from typing import NamedTuple

from ..api.communicator import Comm
from ..errors import Error

LIMIT: int

class Cause(NamedTuple):
    origin: int
    lost: int
    name: str
    text: str
    def pack(self, tag: int) -> bytes: ...
    def exception(self, what: str) -> Error: ...

def unpack(data: bytes | bytearray) -> tuple[int, Cause] | None: ...
def of(error: BaseException, comm: Comm) -> Cause: ...
