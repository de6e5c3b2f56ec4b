# cython: language_level=3
"""A pause of somebody who waits.  Without the engine's lock; nothing here raises."""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.state cimport engine_t


# How long this waiter has waited for nothing.  Zeroed by patience_reset.
cdef struct patience_t:
    uint64_t since          # ticks; 0: not started
    uint32_t rounds
    bint yielding           # it has spun long enough
    uint32_t turns          # engine.busy_turns as of the last look at the clock
    uint32_t epoch          # as of the waiter's last look at its condition
    bint told               # of what is waited for: `engine_awaits`
    bint prepared           # `room` was looked for
    bint fresh              # no message came there before
    char *room              # of the receive that is waited for, while none has come
    uint64_t left           # bytes of it whose pages were not made yet

cdef void patience_reset(patience_t *p) noexcept nogil
# The waiter is about to look at its condition: what changes from now on ends a `pause` at once.
cdef void patience_looks(const engine_t *e, patience_t *p) noexcept nogil
# The waiter looked and found nothing: pause as fits, at most about 100 ms.
# True: it slept, so signals and notices deserve a look.
cdef bint pause(engine_t *e, patience_t *p) noexcept nogil
