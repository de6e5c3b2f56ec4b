# cython: language_level=3
"""Who waits for a message, as far as it is known or can be guessed.  Under the lock; step-safe."""
from pyrdv.engine.state cimport engine_t, op_t

# The caller that started `op`, a large transfer, goes on; whether it waits will show.
cdef void waiting_unknown(engine_t *e, op_t *op) noexcept nogil
# A caller waits until `op` is complete.
cdef void waiting_begins(engine_t *e, op_t *op) noexcept nogil
# `op` is complete, and nobody had waited.
cdef void waiting_never(engine_t *e, op_t *op) noexcept nogil
# Does somebody wait for `op`, or probably will?
cdef bint waiting_here(engine_t *e, const op_t *op) noexcept nogil
