# cython: language_level=3
"""How an engine moves what is too long for eager: its parameters by name."""
from pyrdv.engine.state cimport engine_t

# Give a new engine, whose fabrics and cache are known, the parameters of dict `given`, and of
# `DEFAULTS` where that has none; MemoryError, TypeError, ValueError.
cdef int parameters_set(engine_t *e, given) except -1
