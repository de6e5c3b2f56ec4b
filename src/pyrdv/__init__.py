"""MPI-style messages between Python processes, over RDMA or shared memory.

``from pyrdv import MPI`` gives mpi4py's names.
"""

__version__ = "0.1.0"
__all__ = ["MPI", "empty", "register", "registered_memory", "release", "zeros"]


def __getattr__(name):
    # NumPy and the extension modules are loaded with MPI, not before: the
    # launcher and the command line do without them.
    if name in __all__:
        import importlib

        if name == "MPI":
            return importlib.import_module("pyrdv.MPI")
        return getattr(importlib.import_module("pyrdv.arrays"), name)
    if name.startswith("__"):
        raise AttributeError(f"module 'pyrdv' has no attribute {name!r}")
    from pyrdv.api import missing

    raise missing.attribute("pyrdv", __name__, name)


def __dir__():
    return sorted({*globals(), *__all__})
