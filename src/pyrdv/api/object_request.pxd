# cython: language_level=3
"""Requests of objects: heads and parts on their way."""
from libc.stdint cimport uint64_t

from pyrdv.api.core cimport CommBase
from pyrdv.api.request cimport Request
from pyrdv.engine.state cimport message_t, op_t


cdef class ObjectSend(Request):
    """A head and its parts on their way; complete when all are."""
    cdef list others
    cdef int learn(self, Request part) except -1
    cdef int give_up(self) except -1


cdef class ObjectRecv(Request):
    """A receive of unknown size: match, then head, then parts, then the object."""
    cdef int stage
    cdef object head
    cdef list buffers
    cdef list kinds
    cdef list parts                 # requests
    cdef uint64_t posted            # parts whose receive was posted
    cdef uint64_t left              # parts to be thrown away whose receive could not be posted yet,
    cdef uint64_t cookie            # and what names them
    cdef bint forgotten             # its owner has freed it
    cdef bint busy                  # a step of it, that others make, is under way
    cdef bint foreign               # the message is a buffer, but may hold a pickle
    cdef object failed              # exception of a step that others made for it
    cdef object __weakref__
    # Have every wait in this process go on with it, whether or not its owner looks.
    cdef int register(self) except -1
    cdef int hold(self) except -1
    cdef object value
    # Take the next step that needs no waiting; True when the object is here.
    cdef bint advance(self) except -1
    cdef int take(self, message_t *m) except -1
    cdef int open_head(self) except -1
    cdef int take_parts(self, bytes head) except -1
    # Nothing more is to be done for it.
    cdef int let_go(self) except -1
    # Head and parts of a complete receive, instead of the object.
    cdef tuple pieces(self)
    cdef int add_part(self, uint64_t size, int kind, uint64_t cookie) except -1
    cdef int post_part(self, char *address, uint64_t size, uint64_t cookie,
                       op_t **op) except -1
    # There is no memory for what came: it is taken and thrown away.
    cdef int no_room(self, uint64_t wanted) except -1
    cdef int refuse_parts(self, bytes head) except -1
    # Start on message `m`, for whoever may drop the request before its head is read.
    cdef int take_message(self, message_t *m) except -1


# A receive whose match is operation `op` (OP_MATCH); NULL: from PROC_NULL.
cdef ObjectRecv receive_object(CommBase comm, op_t *op)
# Receive the object of matched message `m`, which is used up.
cdef ObjectRecv receive_head(CommBase comm, message_t *m)
