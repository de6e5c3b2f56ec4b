# cython: language_level=3
"""Pages for the room of a receive, made while its caller waits.

Who waits for a large message has pages made for it, by system calls: at once in an array to which
none came before, else when the waiter yields.
"""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.calls cimport engine_room
from pyrdv.engine.state cimport engine_t, op_t
from pyrdv.progress.pausing cimport patience_t


cdef extern from "pages.h" nogil:
    void pages_whole(char **begin, uint64_t *length)
    int pages_make(char *begin, uint64_t length)


cdef enum:
    ROOM_PIECE = 256 << 10      # bytes whose pages are made between two polls; whole pages


cdef bint prepare_room(engine_t *e, op_t *op, uint32_t generation, patience_t *p) noexcept nogil:
    """Whoever is the first to write there waits for that: the copy, or the registration.  A waiter
    has the time; for memory that was used before, not before it yields.  Contents stay as they are;
    where it cannot be done, nothing happens.
    """
    cdef uint64_t piece
    if not p.prepared:
        p.prepared = True
        p.fresh = engine_room(e, op, generation, &p.room, &p.left)
        pages_whole(&p.room, &p.left)
    if p.left == 0 or not p.fresh and not p.yielding:
        return False
    piece = min(p.left, <uint64_t> ROOM_PIECE)
    if pages_make(p.room, piece) != 0:
        p.left = 0
    else:
        p.room += piece
        p.left -= piece
    return True
