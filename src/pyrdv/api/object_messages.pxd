# cython: language_level=3
"""Messages of Python objects: what the methods of `Comm` do.

Contract: all need the GIL and check their arguments.  None waits unless it is said.
"""
from pyrdv.api.core cimport CommBase
from pyrdv.api.object_request cimport ObjectRecv
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status

# Start a send.  `returns`: the call does before the data has left, so it sends a snapshot.
cdef Request post_object(CommBase comm, object obj, long long dest, long long tag, bint sync,
                         bint returns)
# Start the send of a pickle that counts against an attached buffer.
cdef Request post_buffered(CommBase comm, object obj, long long dest, long long tag)
# Send; waits.
cdef int send(CommBase comm, object obj, long long dest, long long tag, bint sync) except -1
# Start a receive; the second goes on, whether or not its owner looks.
cdef ObjectRecv post_match(CommBase comm, long long source, long long tag)
cdef ObjectRecv post_recv(CommBase comm, long long source, long long tag)
# These wait, and return what came.
cdef object receive(CommBase comm, object buf, long long source, long long tag, Status status)
cdef object sendrecv(CommBase comm, object sendobj, long long dest, long long sendtag,
                     object recvbuf, long long source, long long recvtag, Status status)
