"""Probes."""

from .core import CommBase
from .message import Message

def take(comm: CommBase, source: int, tag: int) -> Message | None: ...
