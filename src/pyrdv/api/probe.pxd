# cython: language_level=3
"""Probes: what the methods of `Comm` do.

Contract: all need the GIL and check their arguments.  `status` is filled, unless it is None.
"""
from pyrdv.api.core cimport CommBase
from pyrdv.api.message cimport Message
from pyrdv.api.status cimport Status

# Whether a message is here; the second waits for it, and is true.
cdef bint glance(CommBase comm, long long source, long long tag, Status status) except -1
cdef bint wait_for(CommBase comm, long long source, long long tag, Status status) except -1
# The same, and take it out of the queue: the message; None: there is none.
cdef Message glance_taking(CommBase comm, long long source, long long tag, Status status)
cdef Message wait_taking(CommBase comm, long long source, long long tag, Status status)
