"""Persistent collective operations: a schedule that is built once and started often."""

from .communicator import Comm
from .persistent import Prequest
from .schedule import Schedule

class CollectivePrequest(Prequest): ...

def persistent(comm: Comm, schedule: Schedule) -> Prequest: ...
