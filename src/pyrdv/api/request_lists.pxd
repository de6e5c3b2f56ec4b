# cython: language_level=3
"""Several requests at once.  Callers have the GIL; only the `wait_` functions wait.

What the user gives as `requests` and `statuses` goes through `requests_of` and `statuses_of`
first; the other functions rely on that: an entry of another type would crash them.
"""

# A tuple of the `Request` objects in `requests`; TypeError names what is none, and its position.
cdef tuple requests_of(requests)
# `statuses` checked likewise: None, or a sequence of `Status`.
cdef object statuses_of(statuses)

# Wait until all of them are complete.
cdef int wait_for_all(tuple requests) except -1
# Use up complete ones: fill `statuses`, then raise the first error.
cdef int report_all(tuple requests, statuses) except -1
# Fill `statuses` without using anything up.
cdef int describe_all(tuple requests, statuses) except -1
# Whether there is anything to wait for.
cdef bint any_pending(tuple requests)
# One look at each: complete?
cdef bint all_complete(tuple requests) except -1
# Indices of those that are complete.
cdef list complete_ones(tuple requests)
# What each received, in order.
cdef list results(tuple requests)
# ``(index, flag)`` as `Testany` returns it.
cdef tuple look_for_any(tuple requests)
# Index as `Waitany` returns it.
cdef object wait_for_any(tuple requests)
# Those of `requests` at `indices`.
cdef tuple chosen(tuple requests, list indices)
