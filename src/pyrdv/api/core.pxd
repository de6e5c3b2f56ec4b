# cython: language_level=3
"""What every communicator is: an engine, members, contexts."""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.api.members cimport Members
from pyrdv.engine.engine cimport Engine, own_process


cdef enum:
    # Each communicator owns this many engine contexts, so that a wildcard of
    # one kind of traffic never meets another kind (field case M07).
    CONTEXT_P2P = 0
    CONTEXT_COLLECTIVE = 1
    CONTEXT_PARTS = 2           # large parts of objects, tagged by a cookie
    CONTEXT_GROUP = 3           # members that make a communicator without the others
    CONTEXTS = 4

cdef enum:                      # errors of receives, beside those of op_error
    MET_OBJECT = 9              # it is for buffers, the message is an object
    MET_BUFFER = 10             # it is for objects, the message is a buffer

cdef enum:
    PROC_NULL_ = -1
    ANY_SOURCE_ = -2
    ANY_TAG_NUMBER = -1
    TAG_LAST = 0x7FFFFFFF       # TAG_UB

cdef enum:
    KINDS = 64                      # of collective calls
    CALLS = 1 << 24                 # of one kind, before their numbers begin anew


cdef class Identity:
    """What all handles of one communicator share."""
    cdef str label
    cdef list handles               # weak references to all of them
    cdef uint32_t cookie            # names the parts of the next object sent here
    cdef readonly dict locks        # name of a collective call -> its lock
    cdef public object info
    # Collective calls, by kind: how many were begun, modulo CALLS, and how many go on.
    cdef uint32_t[KINDS] begun
    cdef uint32_t[KINDS] within
    cdef uint32_t rung              # changes when `aftermath` has news for who waits
    cdef public object aftermath
    cdef public object shelf        # schedules that wait for another call; None
    cdef object __weakref__


cdef class CommBase:
    cdef readonly Engine engine     # None: a null handle, which is freed as well
    cdef readonly Members members
    cdef uint32_t context           # first of its CONTEXTS
    # In every handle, so that the checks of a message look at this object only.
    cdef readonly bint freed
    cdef readonly Identity identity
    cdef object __weakref__
    # Become a handle of the communicator of `members` whose number is `context`.
    cdef int become(self, Engine engine, Members members, uint32_t context, str label,
                    bint borrowed) except -1
    # Checks for arguments of calls: they raise and name the value.  What is right passes inline;
    # the rest, PROC_NULL and wildcards included, is looked at in full; so is all if lines of the
    # program are noted.
    cdef inline bint usable(self) noexcept:
        return not self.freed and not self.engine.unusual and own_process(self.engine)
    cdef inline int ready(self) except -1:
        return 0 if self.usable() else self.refuse()
    cdef inline int check_send(self, long long dest, long long tag) except -1:
        if self.usable() and 0 <= dest < self.members.size and 0 <= tag <= TAG_LAST:
            return 0
        return self.examine_send(dest, tag)
    cdef inline int check_receive(self, long long source, long long tag) except -1:
        if self.usable() and 0 <= source < self.members.size and 0 <= tag <= TAG_LAST:
            return 0
        return self.examine_receive(source, tag)
    cdef int refuse(self) except -1
    # Raise on a null handle.
    cdef int exists(self) except -1
    cdef int check_process(self) except -1
    cdef int examine_send(self, long long dest, long long tag) except -1
    cdef int examine_receive(self, long long source, long long tag) except -1
    # The exception for an operation that ended with op_error `error`.
    cdef object failure(self, int error, int peer, int tag, uint64_t total, uint64_t room)
    cdef bint finished(self, int peer)
    cdef str why(self, int peer)
    cdef inline int from_world(self, uint32_t world) noexcept nogil:
        return self.members.from_world(world)
