# cython: language_level=3
"""A digest of an engine's state, for explorers."""
from libc.stdint cimport uint64_t

from pyrdv.engine.state cimport engine_t

# locked.  Equal states of one program have equal digests; addresses do not count, nor do turns.
cdef uint64_t engine_fingerprint(engine_t *e) noexcept nogil
