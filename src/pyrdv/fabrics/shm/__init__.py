"""Messages between processes of one host through shared memory."""

from pyrdv.fabrics.shm.fabric import ShmFabric

__all__ = ["ShmFabric"]
