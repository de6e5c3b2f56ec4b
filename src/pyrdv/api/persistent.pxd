# cython: language_level=3
"""Persistent requests, and several operations as one request."""
from libc.stdint cimport uint32_t

from pyrdv.api.core cimport CommBase
from pyrdv.api.request cimport Request


cdef enum start_kind:
    START_SEND = 0
    START_SSEND = 1
    START_BSEND = 2
    START_RECV = 3


cdef class Prequest(Request):
    """`origin` is the operation that was started last, until it is reported."""
    cdef Prequest twin              # the request whose second handle this is; None
    cdef start_kind kind
    cdef object buf
    cdef long long peer
    cdef long long match_tag
    cdef bint made                  # not freed
    cdef object __weakref__
    # Start what it stands for.
    cdef Request begin(self)
    # Raise if it cannot be started; the second also what it lacks, as one of `count`.
    cdef int startable(self) except -1
    cdef int examine(self, uint32_t count) except -1


cdef class Together(Request):
    """The request of a receive, or of nothing, and of other requests that are waited for too."""
    cdef list others


# One request for all of `requests`, which nobody else may wait for.
cdef Request all_of(CommBase comm, list requests)
# A persistent request; arguments are checked now, and again by each start.
cdef Prequest prepare(CommBase comm, start_kind kind, object buf, long long peer, long long tag)
# Start a send and a receive as one request; or a receive into what a copy is sent of.
cdef Request isendrecv(CommBase comm, object sendbuf, long long dest, long long sendtag,
                       object recvbuf, long long source, long long recvtag)
cdef Request isendrecv_replace(CommBase comm, object buf, long long dest, long long sendtag,
                               long long source, long long recvtag)
