# cython: language_level=3
"""What a schedule takes when it starts.  Under the engine's lock."""
from pyrdv.engine.schedule.plan cimport schedule_t
from pyrdv.engine.state cimport call_t

# call.  Have all operations of its messages, and while unattended what they will need; False: there
# is no memory for them, and nothing was taken.
cdef bint schedule_reserve(call_t *call, schedule_t *s) noexcept nogil
