# cython: language_level=3
"""Which policy of speculation an engine follows."""
from pyrdv.engine.state cimport engine_t

# At the making of the engine, before its peers: `name` is one of ``indexed``, ``classic``, ``off``;
# `adapt` and `windows` as for `Engine`.
cdef int policy_choose(engine_t *e, name, adapt, windows) except -1
# Give back what the policy and its history hold.
cdef void policy_free(engine_t *e) noexcept
