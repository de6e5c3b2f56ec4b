# cython: language_level=3
"""What a progress mode is: who makes steps while no call runs.  One object per engine.

Polling is no object, and its engine's `progress` is NULL: calls make all steps.  Every other mode
is a ``progress_t`` at the beginning of a struct of its own.  The engine tells it what it must know,
and knows nothing of modes; so this file stands below the engine and names nothing of it.

M1  The engine asks for the mode where an operation was made, never on the way of a message that
    needs none: there is no call through a pointer, and nothing is read.
M2  A mode is set and taken away under the engine's lock, at any time.  `unattended` is set with it,
    so that what steps by themselves will need was reserved by the calls that post.
M3  After `stops` no step of the mode runs, and none begins.  Its memory lives as long as the
    engine.
M4  A mode that waits for what fabrics notice is `watching` meanwhile (engine/sleeping, S9).
"""
from libc.stdint cimport uint8_t, uint32_t


cdef enum progress_code:
    PROGRESS_POLLING = 0
    PROGRESS_PARASITE = 1       # a signal borrows the thread that posted what needs it
    PROGRESS_THREAD = 2         # a thread of its own

cdef struct progress_t:
    uint8_t code                # progress_code
    # call, locked.  A call that does not wait has posted operation `op`, an ``op_t``, and ends.
    void (*posted)(progress_t *self, void *op) noexcept nogil
    # locked.  How many operations it still watches; 0: none needs a trigger.
    uint32_t (*needed)(progress_t *self) noexcept nogil
    # This thread begins to wait, and makes steps until `leaves`.  They may be nested.
    void (*enters)(progress_t *self) noexcept nogil
    void (*leaves)(progress_t *self) noexcept nogil
    # Not locked, in no handler: see M3.
    void (*stops)(progress_t *self) noexcept nogil
    # locked, in no handler.  It is `watching`, and what the fabrics were armed for may have
    # changed, or the arming was taken back: arm anew, or look soon.
    void (*stirred)(progress_t *self) noexcept nogil
    uint8_t watching            # written by watch_begins and watch_ends


# A wait begins, and ends; NULL: polling.
cdef inline void progress_enters(progress_t *mode) noexcept nogil:
    if mode != NULL:
        mode.enters(mode)


cdef inline void progress_leaves(progress_t *mode) noexcept nogil:
    if mode != NULL:
        mode.leaves(mode)


# No step of it runs from now on; NULL: there is none.  Once or again.
cdef inline void progress_stop(progress_t *mode) noexcept nogil:
    if mode != NULL:
        mode.stops(mode)
