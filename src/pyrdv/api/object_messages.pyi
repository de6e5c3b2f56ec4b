"""Messages of Python objects."""

from typing_extensions import Buffer

from .core import CommBase
from .request import Request

def isend_pickled(
    comm: CommBase, head: Buffer, parts: list[memoryview | bytes], dest: int, tag: int = 0
) -> Request: ...
