"""Collective operations in their simplest correct form."""

from typing import Any

from ..api.buffers import InPlaceType, Spec
from ..api.communicator import Comm
from ..api.ops import Op

TAG_BARRIER: int
TAG_BCAST: int
TAG_REDUCE: int

def barrier(comm: Comm) -> None: ...
def bcast_buffer(comm: Comm, buf: Spec, root: int) -> None: ...
def bcast_object(comm: Comm, obj: Any, root: int) -> Any: ...
def allreduce_object(comm: Comm, obj: Any, op: Op) -> Any: ...
def allreduce_buffer(
    comm: Comm, sendbuf: Spec | InPlaceType, recvbuf: Spec, op: Op
) -> None: ...
