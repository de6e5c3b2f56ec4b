# cython: language_level=3
"""Several requests at once.  Callers have the GIL; only the `wait_` functions wait."""


# Wait until all of them are complete.
cdef int wait_for_all(requests) except -1
# Use up complete ones: fill `statuses`, then raise the first error.
cdef int report_all(requests, statuses) except -1
# Fill `statuses` without using anything up.
cdef int describe_all(requests, statuses) except -1
# Whether there is anything to wait for.
cdef bint any_pending(requests)
# One look at each: complete?
cdef bint all_complete(requests) except -1
# Indices of those that are complete.
cdef list complete_ones(requests)
# What each received, in order.
cdef list results(requests)
# ``(index, flag)`` as `Testany` returns it.
cdef tuple look_for_any(requests)
# Index as `Waitany` returns it.
cdef object wait_for_any(requests)
