"""MPI-style messages between Python processes, over RDMA or shared memory."""

from . import MPI as MPI

__version__: str
__all__ = ["MPI"]
