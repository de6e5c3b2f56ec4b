# cython: language_level=3
"""Persistent collective operations: a schedule that is built once and started often."""
from libc.stdint cimport uint32_t

from pyrdv.api.communicator cimport Comm
from pyrdv.api.persistent cimport Prequest
from pyrdv.api.request cimport Request
from pyrdv.api.schedule cimport Schedule

from pyrdv.errors import RequestError


cdef class CollectivePrequest(Prequest):
    """A persistent collective operation: a schedule that is made once."""

    cdef Request begin(self):
        self.comm.ready()
        return self.schedule.launch()

    cdef int startable(self) except -1:
        if not self.made:
            raise RequestError("a null request cannot be started")
        if self.pending():
            raise RequestError("this persistent collective operation is active; wait for it before "
                               "it is started again")
        return 0

    cdef int examine(self, uint32_t count) except -1:
        self.startable()
        self.comm.ready()
        return 0

    def Free(self):
        """Become null.  What was started goes on; its buffers stay alive."""
        Prequest.Free(self)
        self.schedule = None


def persistent(Comm comm not None, Schedule schedule not None):
    """A persistent request that starts a schedule of `comm`, as often as it is wanted."""
    cdef CollectivePrequest request = CollectivePrequest.__new__(CollectivePrequest)
    schedule.kept = True
    schedule.gone()
    request.schedule = schedule
    request.comm = comm
    request.made = True
    return request
