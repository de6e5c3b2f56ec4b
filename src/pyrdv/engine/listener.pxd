# cython: language_level=3
"""An event loop that sleeps until something happens."""
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.sleeper cimport listener_t


cdef class Listener:
    """The place of one event loop among those that sleep (engine/sleeping)."""
    cdef Engine engine
    cdef listener_t c
