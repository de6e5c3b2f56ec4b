# cython: language_level=3
"""Taking back what a call has started."""
from pyrdv.api.request cimport Request

# Undo what a call has started that has then failed; whether it is as if it had not been started.  A
# send that has left goes on by itself, and so does a receive that has met its message.
cdef bint take_back(Request request) except -1
# A blocking receive was interrupted: withdraw it, or let its data land first.
cdef int withdraw(Request request) except -1
