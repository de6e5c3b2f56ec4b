# cython: language_level=3
"""The ``indexed`` pairing of sends and offered receives."""
from pyrdv.engine.state cimport policy_t

cdef const policy_t *indexed_policy() noexcept nogil
