"""Communicators made from others: what the methods of `Intracomm` do."""

from collections.abc import Callable
from typing import TypeVar

from ..api.groups import Group
from ..api.info import Info
from .intracomm import Intracomm

_Kind = TypeVar("_Kind", bound=Intracomm)

RESOURCE: str
SHARED_MEMORY: str
NO_COMM: int

def duplicate(comm: _Kind, info: Info | None) -> _Kind: ...
def split(comm: _Kind, color_of: Callable[[], int], key: int) -> _Kind: ...
def split_type(comm: _Kind, kind: int, key: int, info: Info | None) -> _Kind: ...
def of_group(comm: _Kind, group: Group) -> _Kind: ...
def by_group(comm: _Kind, group: Group, tag: int) -> _Kind: ...
def from_group(
    kind: type[_Kind], group: Group, name: str, tag: int, info: Info | None
) -> _Kind: ...
def free(comm: Intracomm) -> None: ...
