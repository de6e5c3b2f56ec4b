# cython: language_level=3
"""An event loop that sleeps until something happens."""
cimport cython
from libc.errno cimport errno
from libc.stdint cimport uint32_t
from posix.unistd cimport close

from pyrdv.engine.engine cimport Engine, own_process
from pyrdv.engine.sleeping cimport (
    listener_add, listener_finish, listener_prepare, listener_remove)

from pyrdv.errors import ResourceError
from pyrdv.shortage import explain


cdef extern from "<sys/eventfd.h>" nogil:
    int EFD_CLOEXEC, EFD_NONBLOCK
    int eventfd(unsigned int initial, int flags)


@cython.no_gc_clear     # its end speaks to the engine
cdef class Listener:
    """The place of one event loop among those that sleep (engine/sleeping).

    Parameters
    ----------
    engine : Engine

    Raises
    ------
    ResourceError
        There is no descriptor left.
    """

    def __cinit__(self, Engine engine not None):
        self.c.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self.c.fd < 0:
            raise ResourceError(f"no descriptor to await with: {explain('eventfd', errno)}")
        self.engine = engine
        listener_add(engine.c, &self.c)

    def __dealloc__(self):
        if self.engine is None:
            return
        # A forked child has descriptors of its own, but not what they stand for.
        if own_process(self.engine):
            listener_remove(self.engine.c, &self.c)
        close(self.c.fd)

    @property
    def fds(self):
        """The descriptors that an armed listener waits for."""
        return self.engine.c.wait_fd, self.c.fd

    def arm(self, uint32_t epoch):
        """Make the descriptors speak; False if something happened since `epoch`."""
        return listener_prepare(self.engine.c, &self.c, epoch)

    def disarm(self):
        """Undo an `arm` that returned True."""
        listener_finish(self.engine.c, &self.c)
