"""What it takes a fabric to register memory, and to deregister it."""

from typing_extensions import Buffer

from ..fabrics.contract import Fabric

def registrations(
    fabric: Fabric, memory: Buffer, access: int, turns: int, samples: int
) -> list[tuple[float, float]]: ...
