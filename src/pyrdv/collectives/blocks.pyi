"""Collective operations that move one block per member, in their simplest correct form."""

from collections.abc import Iterable
from typing import Any

from ..api.buffers import InPlaceType, Spec
from ..api.communicator import Comm
from ..api.ops import Op

def gather(
    comm: Comm, sendbuf: Spec | InPlaceType, recvbuf: Any, root: int, even: bool, what: str
) -> None: ...
def scatter(
    comm: Comm, sendbuf: Any, recvbuf: Spec | InPlaceType, root: int, even: bool, what: str
) -> None: ...
def allgather(
    comm: Comm, sendbuf: Spec | InPlaceType, recvbuf: Any, even: bool, what: str
) -> None: ...
def alltoall(
    comm: Comm, sendbuf: Any, recvbuf: Any, even: bool, what: str
) -> None: ...
def reduce_scatter(
    comm: Comm,
    sendbuf: Spec | InPlaceType,
    recvbuf: Spec,
    counts: Iterable[int] | None,
    op: Op,
    what: str,
) -> None: ...
def gather_objects(comm: Comm, obj: Any, root: int) -> list[Any] | None: ...
def scatter_objects(comm: Comm, objs: Iterable[Any] | None, root: int) -> Any: ...
def alltoall_objects(comm: Comm, objs: Iterable[Any]) -> list[Any]: ...
