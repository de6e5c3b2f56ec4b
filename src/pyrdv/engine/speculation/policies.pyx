# cython: language_level=3
"""The policies of speculation by name; each is one file and fills one ``policy_t``."""
from libc.stdlib cimport calloc, free

from pyrdv.engine.matching cimport index_free, index_init
from pyrdv.engine.speculation.classic cimport classic_policy
from pyrdv.engine.speculation.indexed cimport indexed_policy
from pyrdv.engine.speculation.profile cimport profile_free
from pyrdv.engine.state cimport CLASSES, class_t, engine_t, peer_t, policy_t
from pyrdv.engine.wire cimport rtr_t


cdef void off_arrived(engine_t *e, peer_t *p, const rtr_t *rtr) noexcept nogil:
    e.counters.rtrs_refused += 1


# Without speculation: nobody offers, and what a peer of another mind offers is refused.
cdef policy_t operations
operations.arrived = off_arrived


cdef int policy_choose(engine_t *e, name, windows) except -1:
    e.window, e.trial_every, e.resume_after = windows
    if name == "indexed":
        e.policy = indexed_policy()
    elif name == "classic":
        e.policy = classic_policy()
        e.classes = <class_t *> calloc(e.size * CLASSES, sizeof(class_t))
        if e.classes == NULL or index_init(&e.unanswered):
            raise MemoryError
    elif name == "off":
        e.policy = &operations
    else:
        raise ValueError(f"speculation={name!r} is none of 'indexed', 'classic', 'off'")
    return 0


cdef void policy_free(engine_t *e) noexcept:
    index_free(&e.unanswered)
    free(e.classes)
    e.classes = NULL
    profile_free(e)
