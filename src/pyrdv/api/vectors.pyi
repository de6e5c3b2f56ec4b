"""Messages of one block per rank, as the vector collectives take them."""

from .buffers import Spec
from .datatypes import Datatype

class VectorMessage: ...

def parse_vector(
    spec: Spec, blocks: int, *, writable: bool = False
) -> tuple[int, int, list[int], list[int], Datatype, object]: ...

def parse_blocks(
    spec: Spec, blocks: int, *, even: bool, writable: bool = False
) -> tuple[memoryview, list[tuple[int, int]], Datatype, int]: ...
