# cython: language_level=3
"""How long a peer may be silent, and how long its transport tries.  Pure functions; step-safe."""
from libc.stdint cimport int64_t, uint8_t

cdef enum silence_verdict:
    SILENCE_SHORT = 0
    SILENCE_ASK = 1             # so long that the peer is to be asked
    SILENCE_LOST = 2            # it was asked and has not answered in time

# What the time `now` makes of a link that was heard of at `heard_at`, and asked at `pinged_at`
# (0: not asked since).  All in ns, of one clock.
cdef int silence_judge(int64_t now, int64_t heard_at, int64_t pinged_at, int64_t timeout,
                       bint iwarp) noexcept nogil
# When `silence_judge` says something else, if nothing comes.
cdef int64_t silence_ends(int64_t heard_at, int64_t pinged_at, int64_t timeout,
                          bint iwarp) noexcept nogil
# Fills the transport's time-out, as an exponent, and its retries.  `endless`: the device takes the
# most retries for infinitely many.
cdef void transport_patience(int64_t timeout, bint endless, uint8_t *ack,
                             uint8_t *retries) noexcept nogil
