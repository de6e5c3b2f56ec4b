"""MPI-style messages between Python processes, over RDMA or shared memory.

``from pyrdv import MPI`` gives mpi4py's names.
"""

__version__ = "0.1.0"
__all__ = ["MPI"]


def __getattr__(name):
    # NumPy and the extension modules are loaded with MPI, not before: the
    # launcher and the command line do without them.
    if name == "MPI":
        import importlib

        return importlib.import_module("pyrdv.MPI")
    raise AttributeError(f"module 'pyrdv' has no attribute {name!r}")
