# cython: language_level=3
"""Messages of buffers: what the methods of `Comm` do.

Contract: all need the GIL and check their arguments.  None waits unless it is said.
"""
from libc.stdint cimport uint32_t

from pyrdv.api.core cimport CommBase
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status

# Start a send (`how`: send_how); None: it is complete, no request was needed.
cdef Request begin_send(CommBase comm, object buf, long long dest, long long tag, int how)
# The same with a request in any case; and of a copy that counts against an attached buffer.
cdef Request post_send(CommBase comm, object buf, long long dest, long long tag, int how)
cdef Request post_buffered(CommBase comm, object buf, long long dest, long long tag, int how)
# Wait for a send.  Interrupted, the request is dropped: the engine keeps the buffer until the
# message has left.  Refused for want of something, it is taken back.
cdef int finish_send(CommBase comm, Request request, long long dest, long long tag) except -1
# Send; waits.
cdef int send(CommBase comm, object buf, long long dest, long long tag, int how) except -1
# Before a call starts `count` operations, sends to `dest` among them: raise what they lack.
# Whether the connection is still under way.
cdef bint prepare_several(CommBase comm, long long dest, uint32_t count) except? True
# Before a blocking call sends and receives: raise what the send lacks.  Waits for REACH_S at most.
cdef int reach(CommBase comm, long long dest, long long tag) except -1
# Start a receive (`waits`: the caller will, at once); the second has `request`, of any class, for
# its request.
cdef Request post_recv(CommBase comm, object buf, long long source, long long tag, bint waits)
cdef int post_recv_as(CommBase comm, Request request, object buf, long long source, long long tag,
                      bint waits) except -1
# These wait.
cdef int receive(CommBase comm, object buf, long long source, long long tag,
                 Status status) except -1
cdef int sendrecv(CommBase comm, object sendbuf, long long dest, long long sendtag, object recvbuf,
                  long long source, long long recvtag, Status status) except -1
cdef int sendrecv_replace(CommBase comm, object buf, long long dest, long long sendtag,
                          long long source, long long recvtag, Status status) except -1
