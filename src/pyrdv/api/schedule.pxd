# cython: language_level=3
"""Builds schedules of messages between the members of a communicator, and starts them.

Needs the GIL; nothing here waits.
"""
from libc.stdint cimport uint8_t, uint32_t

from pyrdv.api.communicator cimport Comm
from pyrdv.api.request cimport Request
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.schedule.plan cimport action_t, round_t, schedule_t


cdef class Schedule:
    cdef readonly Comm view         # of the communicator's collective context
    cdef readonly int rank
    cdef readonly int size
    cdef readonly int kind
    cdef readonly int number
    cdef Engine engine
    cdef schedule_t s               # its arrays are the ones below
    cdef action_t *actions
    cdef round_t *rounds
    cdef uint32_t action_room, round_room
    cdef bint working               # the round that is built has got reductions or copies
    cdef bint named                 # owners of buffers are named for it
    cdef tuple keepers              # what keeps the buffers alive: the last, and those before it
    cdef dict calls                 # action -> what Python does there
    cdef list failures              # shared with the request: what such a call has raised
    cdef object __weakref__
    # An action at the end of the present round, or of the next.
    cdef action_t *add(self, uint8_t kind) except NULL
    cdef int message(self, uint8_t kind, object buf, int other, bint writable) except -1
    # All is added: fill what the engine reads.
    cdef int arrange(self) except -1
    # The engine has named the owners of the buffers itself, or never will.
    cdef int let_go(self) noexcept


cdef class CollectiveRequest(Request):
    cdef int kind
    cdef list failures
