# cython: language_level=3
"""The policies of speculation by name; each is one file and fills one ``policy_t``."""
from libc.stdlib cimport calloc, free

from pyrdv.engine.speculation.adaptation cimport habits_t
from pyrdv.engine.speculation.classic cimport classic_policy
from pyrdv.engine.speculation.history cimport history_free
from pyrdv.engine.speculation.indexed cimport indexed_policy
from pyrdv.engine.speculation.offers cimport offers_t
from pyrdv.engine.speculation.regret cimport regret_t
from pyrdv.engine.state cimport engine_t, peer_t, policy_t
from pyrdv.engine.wire cimport rtr_t


cdef enum:
    FEW = 3                     # unused offers that stop an envelope (``regret``)


cdef void off_arrived(engine_t *e, peer_t *p, const rtr_t *rtr) noexcept nogil:
    e.counters.rtrs_refused += 1


# Without speculation: nobody offers, and what a peer of another mind offers is refused.
cdef policy_t operations
operations.peer_bytes = sizeof(offers_t)
operations.arrived = off_arrived


cdef int policy_choose(engine_t *e, name, adapt, windows) except -1:
    cdef habits_t *habits
    cdef regret_t *regret
    if name == "indexed":
        e.policy = indexed_policy()
    elif name == "classic":
        e.policy = classic_policy()
    elif name == "off":
        e.policy = &operations
    else:
        raise ValueError(f"speculation={name!r} is none of 'indexed', 'classic', 'off'")
    e.pairing = <char *> calloc(1, max(e.policy.engine_bytes, 1))
    if e.pairing == NULL:
        raise MemoryError
    if name == "indexed":
        regret = <regret_t *> e.pairing
        regret.never = not adapt
        regret.few = min(windows[0], FEW)
        regret.trial_every = windows[1]
    elif name == "classic":
        habits = <habits_t *> e.pairing
        habits.adapt = adapt
        habits.window, habits.trial_every, habits.resume_after = windows
    return 0


cdef void policy_free(engine_t *e) noexcept:
    free(e.pairing)
    e.pairing = NULL
    history_free(e)
