"""Messages of Python objects: the lower-case methods."""

from typing import Any

from typing_extensions import Buffer

from .probe import ProbedMessages
from .request import Request
from .status import Status

class ObjectMessages(ProbedMessages):
    def isend_pickled(
        self, head: Buffer, parts: list[memoryview | bytes], dest: int, tag: int = 0
    ) -> Request: ...
    def recv_pickled(self, source: int = -2, tag: int = -1) -> tuple[Buffer, list[Any]]: ...
    def send(self, obj: Any, dest: int, tag: int = 0) -> None: ...
    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None: ...
    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None: ...
    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request: ...
    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request: ...
    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request: ...
    def recv(
        self,
        buf: Buffer | None = None,
        source: int = -2,
        tag: int = -1,
        status: Status | None = None,
    ) -> Any: ...
    def irecv(
        self, buf: Buffer | None = None, source: int = -2, tag: int = -1
    ) -> Request: ...
    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Buffer | None = None,
        source: int = -2,
        recvtag: int = -1,
        status: Status | None = None,
    ) -> Any: ...
