# cython: language_level=3
"""What a message costs over one fabric, and which way is the cheapest.  Step-safe unless said."""
from libc.stdint cimport uint64_t

from pyrdv.engine.state cimport engine_t, figures_t, peer_t

cdef enum:
    BUFFER = 128 << 10          # bytes of a bounce buffer, where nobody says

# Whether it costs less to copy `length` bytes through lanes than to read them; and the seconds of
# both.  `near` and `far`: how many messages a registration on this side and on the other would
# serve; 0: that side is registered.
cdef bint figures_pick(const figures_t *f, uint64_t length, double near, double far,
                       double *reading, double *copying) noexcept nogil
# Seconds that a WRITE of `length` bytes takes.
cdef double figures_net(const figures_t *f, uint64_t length) noexcept nogil
# Whether it costs less to copy `length` bytes into a standing buffer and out of it than to read
# them; and the seconds of both.
cdef bint figures_place(const figures_t *f, uint64_t length, double near, double far,
                        double *placing, double *reading) noexcept nogil
# The index of a peer's fabric in the engine.
cdef int fabric_index(const engine_t *e, const peer_t *p) noexcept nogil
# Needs the GIL.  Read a profile, a dict; `buffer`: bytes of a bounce buffer.  ValueError, KeyError,
# TypeError.
cdef int figures_fill(figures_t *f, object profile, object buffer) except -1
# Needs the GIL.  Take over the profiles of the engine's fabrics, a sequence of dicts or None;
# ValueError.
cdef int figures_configure(engine_t *e, object profiles) except -1
