# cython: language_level=3
"""Executes schedules.  Under the engine's lock, unless it says that it takes it."""
from libc.stdint cimport uint32_t

from pyrdv.engine.schedule.plan cimport schedule_t
from pyrdv.engine.state cimport engine_t, op_t, peer_t

# call; takes the lock.  Begin: reserve what all rounds need, look for what is here, start the first
# round.  Returns 0, and `s.op` is under way or complete; or minus an op_error, and nothing began.
cdef int schedule_start(engine_t *e, schedule_t *s) noexcept nogil
# step.  Go on with all schedules; returns how many things happened.
cdef int schedules_step(engine_t *e) noexcept nogil
# call.  The operations of `p` were ended, for it is gone, or sends nothing any more.
cdef void schedules_alarm(engine_t *e, const peer_t *p) noexcept nogil
# Takes the lock.  The action that waits for Python (ACTION_CALL), or -1.
cdef long schedule_waits(engine_t *e, schedule_t *s) noexcept nogil
# call; takes the lock.  Python has done it, or failed with the op_error `error`.
cdef void schedule_called(engine_t *e, schedule_t *s, int error) noexcept nogil
# call; takes the lock.  It failed with `error`, somewhere else: no round begins any more (L5).
cdef void schedule_end(engine_t *e, schedule_t *s, int error) noexcept nogil
# call; takes the lock.  `peer`, a world rank, has said that it takes no part: what it has sent
# before is here, so a failed schedule waits for nothing else of it.
cdef void schedule_excuse(engine_t *e, schedule_t *s, uint32_t peer) noexcept nogil
# Takes the lock.  The builder lets go of a schedule that is over, did not start, or whose
# engine is closed: its operations are given back, but for `s.op`.  Those under way go to `left`,
# which has room for one per action; returns how many.
cdef uint32_t schedule_release(engine_t *e, schedule_t *s, op_t **left) noexcept nogil
