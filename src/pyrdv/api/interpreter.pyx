# cython: language_level=3, nonecheck=True
"""Refuses to be imported in a subinterpreter, before NumPy is.

The modules keep state per process (the world, its descriptors, its exit handler), and NumPy does
not support subinterpreters either.
"""

cdef extern from "Python.h":
    ctypedef struct PyInterpreterState:
        pass
    PyInterpreterState *PyInterpreterState_Get()
    PyInterpreterState *PyInterpreterState_Main()


def is_main():
    """Whether this is the main interpreter of the process."""
    return PyInterpreterState_Get() == PyInterpreterState_Main()


if not is_main():
    raise ImportError(
        "pyrdv cannot be imported in a subinterpreter: a process is one rank; import it in the "
        "main interpreter, or use processes or threads instead of subinterpreters")
