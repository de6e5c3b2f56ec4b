# cython: language_level=3
"""The Python objects around one ``engine_t``: its owner, and operations without a request."""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.state cimport engine_t, op_t
from pyrdv.memory.registration cimport Registrations


cdef class Engine:
    """Owner of one ``engine_t`` and keeper of its fabrics."""
    cdef engine_t *c
    cdef readonly tuple fabrics
    cdef readonly bint ending       # its world ends: nothing new is started
    cdef readonly bint closed       # it has ended: nothing under way goes on
    cdef readonly Registrations registrations
    cdef readonly dict groups       # context -> world ranks whose messages it carries
    cdef public object notice       # called by waits now and then; None
    cdef public object mode         # owner of what `c.progress` is; None: polling
    cdef public object abort        # ends the job with a status; set by the world
    cdef public object blamed       # called with the world rank of a peer that an error names; None
    cdef public object neighbours   # world ranks that share memory with it; None: only itself
    cdef public object preferred    # kind of collective call -> algorithm asked for; None: none is
    cdef object __weakref__
    cdef readonly object watchers   # event loop -> what drives this engine from it
    cdef readonly list orphans      # Orphan objects: operations nobody waits for
    cdef readonly dict pending      # id -> weak reference: what needs help() to go on (polling)
    cdef bint unusual               # it is ending, or lines are noted: calls take a closer look
    cdef readonly list lines        # FILE:LINE of the program, by op.line; None: not noted
    cdef dict line_numbers          # and back
    cdef readonly dict ends         # world rank -> how it ended, as the launcher said
    cdef readonly set matched       # those of them that have their message: held until they end
    cdef readonly set forsaken      # and those nobody waits for: until their senders are let go
    cdef unsigned int unhelped      # looks at `pending` that were saved since the last
    cdef bint helping               # one of them is under way
    cdef Py_ssize_t reap_at         # length of orphans at which to look through them
    cdef uint64_t adopted           # bytes of the orphans since the last look
    cdef const unsigned int *fork_count     # how often this process and its ancestors forked
    cdef unsigned int forks         # that count in the process that may use it
    cdef readonly long creator      # that process


cdef class Orphan:
    """An operation that outlived its request, and what its buffer needs to stay alive."""
    cdef Engine engine
    cdef op_t *op
    cdef uint32_t generation
    cdef object keeper
    cdef bint settle(self)

# Whether this process is the one that made `engine`, not a forked child of it.
cdef inline bint own_process(Engine engine) noexcept nogil:
    return engine.forks == engine.fork_count[0]

# What operation `i` of the pool is now, for code that cannot hold the lock.
cdef void op_copy(engine_t *e, uint32_t i, op_t *out) noexcept nogil

# Hand `op` over to the engine: it is released, with its keeper, once complete.
cdef int adopt(Engine engine, op_t *op, object keeper) except -1
