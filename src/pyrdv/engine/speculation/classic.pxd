# cython: language_level=3
"""The ``classic`` pairing of sends and offered receives, as published."""
from pyrdv.engine.state cimport policy_t

cdef const policy_t *classic_policy() noexcept nogil
