"""MPI-style messages between Python processes, over RDMA or shared memory."""

from . import MPI as MPI
from .arrays import (
    empty as empty,
    register as register,
    registered_memory as registered_memory,
    release as release,
    zeros as zeros,
)

__version__: str
__all__ = ["MPI", "empty", "register", "registered_memory", "release", "zeros"]
