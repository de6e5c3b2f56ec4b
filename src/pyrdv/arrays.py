"""Arrays in registered memory, and what becomes of registrations.

Importing this module joins the job, as `pyrdv.MPI` does.
"""

import numpy as _numpy

from pyrdv import world as _world_module
from pyrdv.api import pinned as _pinned
from pyrdv.memory.allocator import RegisteredMemory as _RegisteredMemory

_world = _world_module.init()


def empty(shape, dtype=float, order="C"):
    """A new array in registered memory, its elements undefined.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : data-type
        As for `numpy.empty`.
    order : {'C', 'F'}
        Row-major or column-major.

    Returns
    -------
    numpy.ndarray
        Sent and received without registration, if it has 16 KiB or more.  Its memory goes back to
        the pool when the array dies.

    Warns
    -----
    UserWarning
        Once, if the pool has no room: such arrays are in ordinary memory.
    """
    return _world.memory().make(_numpy.empty, shape, dtype, order)


def zeros(shape, dtype=float, order="C"):
    """`empty`, filled with zeros."""
    return _world.memory().make(_numpy.zeros, shape, dtype, order)


def registered_memory():
    """A context in which all new NumPy arrays are in registered memory.

    Returns
    -------
    context manager
        For a ``with`` statement; it counts for the thread, or the task, that runs it.

    Notes
    -----
    It sets NumPy's handler for data memory (NEP 49), so it holds for whatever makes arrays inside:
    other libraries, results of expressions.
    """
    return _RegisteredMemory(_world.memory().pool)


def register(buf):
    """Keep the memory of `buf` registered until told otherwise.

    Parameters
    ----------
    buf : buffer specification
        As for a message: an array, a bytearray, an mmap, a tensor with DLPack…  It must not move or
        shrink meanwhile; what is asked not to refuses to (a bytearray cannot be resized).

    Returns
    -------
    Pinned
        Lets go by ``release()``, at the end of a ``with`` statement, or when it dies.

    Raises
    ------
    MemoryError
        It cannot be registered; the text names the limit.
    InvalidBufferError, DatatypeError, FinalizedError
    """
    return _pinned.Pinned(_world.engine, buf)


def release(buf):
    """Give back what is kept registered of the array behind `buf`.

    Needed only before the memory of an array is moved or shrunk by force, with
    ``resize(refcheck=False)``, or to have `numpy.ndarray.resize` work at all: NumPy refuses it
    for an array that is watched.

    Parameters
    ----------
    buf : buffer
        The array, or a view of it.

    Returns
    -------
    bool
        Whether something was kept.
    """
    return _pinned.forget(_world.engine, buf)


__all__ = ["empty", "register", "registered_memory", "release", "zeros"]
