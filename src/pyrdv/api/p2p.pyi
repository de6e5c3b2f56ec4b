"""Point-to-point messages of buffers: the capitalized methods."""

from .buffers import Spec
from .core import CommBase
from .request import Request
from .status import Status

REACH_S: float

def reach(comm: BufferMessages, dest: int, tag: int) -> None: ...

class BufferMessages(CommBase):
    def Send(self, buf: Spec, dest: int, tag: int = 0) -> None: ...
    def Ssend(self, buf: Spec, dest: int, tag: int = 0) -> None: ...
    def Rsend(self, buf: Spec, dest: int, tag: int = 0) -> None: ...
    def Isend(self, buf: Spec, dest: int, tag: int = 0) -> Request: ...
    def Issend(self, buf: Spec, dest: int, tag: int = 0) -> Request: ...
    def Irsend(self, buf: Spec, dest: int, tag: int = 0) -> Request: ...
    def Recv(
        self, buf: Spec, source: int = -2, tag: int = -1, status: Status | None = None
    ) -> None: ...
    def Irecv(self, buf: Spec, source: int = -2, tag: int = -1) -> Request: ...
    def Sendrecv(
        self,
        sendbuf: Spec,
        dest: int,
        sendtag: int = 0,
        recvbuf: Spec = None,
        source: int = -2,
        recvtag: int = -1,
        status: Status | None = None,
    ) -> None: ...
    def Sendrecv_replace(
        self,
        buf: Spec,
        dest: int,
        sendtag: int = 0,
        source: int = -2,
        recvtag: int = -1,
        status: Status | None = None,
    ) -> None: ...
