# cython: language_level=3
"""Builds schedules of messages between the members of a communicator, and starts them.

Needs the GIL; nothing here waits.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.api.communicator cimport Comm
from pyrdv.api.request cimport Request
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.schedule.plan cimport action_t, round_t, schedule_t
from pyrdv.progress.polling cimport bell_t


cdef struct place_t:                # where memory of an action lies in its call's buffers
    int32_t buffer                  # which one (`shelf`); behind those of the call, scratch memory
    int32_t origin
    uint64_t buffer_at              # bytes behind its beginning
    uint64_t origin_at


cdef class Schedule:
    cdef readonly Comm view         # of the communicator's collective context
    cdef readonly int rank
    cdef readonly int size
    cdef readonly int kind
    cdef readonly int number
    cdef readonly int tag           # of all its messages
    cdef Engine engine
    cdef schedule_t s               # its arrays are the ones below
    cdef action_t *actions
    cdef round_t *rounds
    cdef uint32_t action_room, round_room
    cdef bint working               # the round that is built has got reductions or copies
    cdef public bint parts          # the messages that are added are parts of a vector (L9)
    cdef bint named                 # owners of buffers are named for it
    cdef public bint kept           # it may be started again
    cdef bint left                  # this process is not in the call any more
    cdef bell_t bell                # rings when another member says something of a failure
    cdef tuple keepers              # what keeps the buffers alive: the last, and those before it
    cdef dict calls                 # action -> what Python does there
    cdef long called_last           # the last action of those that was done; -1
    cdef tuple owned                # arrays of scratch memory
    cdef object shape               # of its call; None: it is for one call
    cdef place_t *places            # of the actions, if it has a shape
    cdef int buffers                # of its call
    cdef int written                # of them, those that are written into: bits
    cdef list failures              # shared with the request: what such a call has raised
    cdef object __weakref__
    # Become the next call of its kind on `comm`.
    cdef int enroll(self, Comm comm) except -1
    # An action at the end of the present round, or of the next.
    cdef action_t *add(self, uint8_t kind) except NULL
    cdef int message(self, uint8_t kind, object buf, int other, bint writable) except -1
    # All is added: fill what the engine reads.
    cdef int arrange(self) except -1
    # The engine has named the owners of the buffers itself, or never will.
    cdef int let_go(self) noexcept
    # It is over, or its builder goes: give back what it holds, if that was not done.
    cdef void release(self) noexcept
    # It is over and has a shape: another call may have it.
    cdef void put_back(self, bint busy) noexcept
    # This process is not in the call any more.
    cdef void gone(self) noexcept
    # Read alarms, and end it if one concerns it.
    cdef int hear(self) except -1


cdef class CollectiveRequest(Request):
    cdef int kind
    cdef list failures
    cdef object failed              # its schedule, if that is complete with an error; or None
