# cython: language_level=3, nonecheck=True
"""Memory that stays registered because somebody said so."""
cimport cython
cimport numpy as cnp

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.owners cimport find_owner, owning_array
from pyrdv.engine.calls cimport engine_lock, engine_unlock
from pyrdv.engine.engine cimport Engine, own_process
from pyrdv.engine.state cimport OP_NO_MEMORY
from pyrdv.memory.mappings cimport (
    cache_give, cache_name, cache_t, cache_take, cache_unname, device_t, range_end, range_new)

from pyrdv.errors import FinalizedError, InvalidBufferError, from_status

cnp.import_array()


@cython.no_gc_clear     # what it has taken is given back through its engine
cdef class Pinned:
    """Memory that stays registered until `release`, the end of a ``with``, or its own end.

    Parameters
    ----------
    engine : Engine
    buf : buffer specification
        As for a message.  It is kept alive, and in place: a bytearray cannot be resized meanwhile.

    Attributes
    ----------
    nbytes : int
        How much it is.

    Raises
    ------
    InvalidBufferError, DatatypeError
        It is not contiguous, or no buffer.
    MemoryError
        It cannot be registered.
    FinalizedError
        The job is over.
    """

    def __cinit__(self, Engine engine not None, buf):
        cdef span at
        cdef bint writable = True
        cdef bint well
        if engine.closed or not own_process(engine):
            raise FinalizedError("memory is to be registered after Finalize(), or in a forked "
                                 "process")
        try:
            keeper = acquire(buf, True, &at)
        except InvalidBufferError:
            # Read-only memory can be sent.
            keeper = acquire(buf, False, &at)
            writable = False
        self.engine = engine
        self.keeper = keeper
        self.nbytes = at.nbytes
        if at.nbytes == 0:
            return
        self.owner = find_owner(engine, keeper, &at)
        engine_lock(&engine.c.lock)
        if self.owner == NULL:
            self.owner = range_new(engine.registrations.c, at.address, at.nbytes)
            self.ranged = self.owner != NULL
        cache_name(self.owner)
        well = take(self, &at, writable)
        engine_unlock(&engine.c.lock)
        if not well:
            self.release()
            raise from_status(OP_NO_MEMORY, wanted_bytes=at.nbytes, registering=True,
                              what="memory that is to stay registered")

    def release(self):
        """Let go of the memory; it may still be kept registered for the next message."""
        cdef Engine engine = self.engine
        cdef cache_t *cache
        cdef int i
        if engine is None:
            return
        self.engine = None
        self.keeper = None
        cache = engine.registrations.c
        if not own_process(engine):
            return
        engine_lock(&engine.c.lock)
        for i in range(cache.device_count):
            if self.mappings[i] != NULL:
                cache_give(cache, self.mappings[i])
                self.mappings[i] = NULL
        if self.owner != NULL:
            self.owner.pins -= 1
        if self.ranged:
            range_end(cache, self.owner)
        cache_unname(cache, self.owner)
        self.owner = NULL
        engine_unlock(&engine.c.lock)

    def __dealloc__(self):
        if self.engine is not None:
            self.release()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.release()

    def __repr__(self):
        state = "released" if self.engine is None else f"{self.nbytes} bytes"
        return f"<registered memory: {state}>"


cdef bint take(Pinned pinned, const span *at, bint writable) noexcept:
    """Under the lock.  One mapping at each device that keeps any; False: one has no room."""
    cdef cache_t *cache = pinned.engine.registrations.c
    cdef device_t *device
    cdef int rights
    cdef int i
    if pinned.owner == NULL:
        return False
    pinned.owner.pins += 1
    for i in range(cache.device_count):
        device = &cache.devices[i]
        rights = (device.rights if writable else device.sources) & ~device.exposed
        if device.keeps and rights:
            pinned.mappings[i] = cache_take(cache, pinned.owner, i, at.address, at.nbytes, rights)
            if pinned.mappings[i] == NULL:
                return False
    return True


def forget(Engine engine not None, buf):
    """Give back what is kept registered of the array behind `buf`.

    Parameters
    ----------
    engine : Engine
    buf : buffer
        An array, or a view of it.

    Returns
    -------
    bool
        Whether something was kept.
    """
    cdef span at
    if engine.closed or not own_process(engine):
        return False
    array = owning_array(buf if isinstance(buf, cnp.ndarray) else acquire(buf, False, &at))
    return array is not None and engine.registrations.forget(array)
