# cython: language_level=3
"""NumPy arrays whose data lives in a pool of registered memory (NEP 49).

Small arrays are sent by copy, so they stay in ordinary memory; so does what the pool has no room
for.  Whose a piece of memory is shows in its address (A1).
"""
cimport cython
from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_New, PyCapsule_SetContext
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset, strcpy

cimport numpy as cnp

from pyrdv.memory.pool cimport (
    pool_attach, pool_close, pool_free, pool_has, pool_new, pool_open, pool_shrink, pool_size,
    pool_t)
from pyrdv.memory.registration cimport Registrations

import os
import warnings

cnp.import_array()

cdef enum:
    SMALL = 1 << 14             # arrays below it stay in ordinary memory
    ARENA = 1 << 25             # least that is committed at a time


cdef void *handler_malloc(void *ctx, size_t size) noexcept nogil:
    cdef void *made = NULL
    if size >= SMALL:
        made = pool_new(<pool_t *> ctx, size)
    return made if made != NULL else malloc(size if size else 1)


cdef void *handler_calloc(void *ctx, size_t count, size_t size) noexcept nogil:
    cdef void *made = NULL
    if size and count > <size_t> -1 // size:
        return NULL
    if count * size >= SMALL:
        made = pool_new(<pool_t *> ctx, count * size)
    if made == NULL:
        return calloc(count if count else 1, size if size else 1)
    return memset(made, 0, count * size)


cdef void handler_free(void *ctx, void *address, size_t size) noexcept nogil:
    if pool_has(<pool_t *> ctx, address):
        pool_free(<pool_t *> ctx, address)
    else:
        free(address)


cdef void *handler_realloc(void *ctx, void *address, size_t size) noexcept nogil:
    cdef pool_t *pool = <pool_t *> ctx
    cdef void *made
    if not pool_has(pool, address):
        return realloc(address, size if size else 1)
    if pool_shrink(pool, address, size):
        return address
    made = handler_malloc(ctx, size)
    if made != NULL:
        memcpy(made, address, pool_size(pool, address))
        pool_free(pool, address)
    return made


cdef void capsule_ended(object capsule) noexcept:
    Py_DECREF(<object> PyCapsule_GetContext(capsule))


@cython.no_gc_clear     # its end needs what it keeps
cdef class Pool:
    """Memory for arrays: registered, in huge pages where there are some, used again and again.

    Parameters
    ----------
    bytes_max : int
        Most memory it may take, bytes.
    arena : int
        Least that it takes and registers at a time, bytes.

    Raises
    ------
    MemoryError
        Not even that many addresses are left.

    Attributes
    ----------
    registrations : Registrations or None
        Where its memory is registered.
    """

    def __cinit__(self, uint64_t bytes_max, uint64_t arena=ARENA):
        cdef int error
        self.c = <pool_t *> calloc(1, sizeof(pool_t))
        if self.c == NULL:
            raise MemoryError
        error = pool_open(self.c, max(bytes_max, <uint64_t> 1), arena)
        if error:
            free(self.c)
            self.c = NULL
            raise MemoryError(f"no room for a pool of {bytes_max} bytes: {os.strerror(error)}; set "
                              "PYRDV_POOL_BYTES to less")
        strcpy(self.handler.name, "pyrdv")
        self.handler.version = 1
        self.handler.allocator.ctx = self.c
        self.handler.allocator.malloc = handler_malloc
        self.handler.allocator.calloc = handler_calloc
        self.handler.allocator.realloc = handler_realloc
        self.handler.allocator.free = handler_free

    def __dealloc__(self):
        if self.c != NULL:
            # Without an engine: who attaches it keeps it, and detaches it.
            pool_attach(self.c, NULL)
            pool_close(self.c)
            free(self.c)

    def attach(self, Registrations registrations or None, keeper=None):
        """Register its memory there, now and as it grows.

        Parameters
        ----------
        registrations : Registrations or None
            None: nowhere any more.
        keeper : object, optional
            Kept until then: what `registrations` cannot be without.

        Returns
        -------
        bool
            Whether all that it has taken so far is registered.
        """
        cdef bint well
        well = pool_attach(self.c, NULL if registrations is None else registrations.c)
        self.registrations = registrations
        self.keeper = keeper
        return well

    cdef object capsule(self):
        capsule = PyCapsule_New(&self.handler, "mem_handler", capsule_ended)
        PyCapsule_SetContext(capsule, <void *> self)
        Py_INCREF(self)
        return capsule

    cdef int tell(self) except -1:
        if self.c.refused and not self.told:
            self.told = True
            full = "cannot be registered" if self.c.exhausted else "is all in use"
            warnings.warn(
                f"the pool of registered memory ({self.c.committed} of {self.c.length} bytes "
                f"taken) {full}: further arrays are in ordinary memory; raise PYRDV_POOL_BYTES"
                + (" or `ulimit -l`" if self.c.exhausted else ""), stacklevel=3)
        return 0

    def holds(self, array):
        """Whether the data of `array` begins in the pool."""
        return pool_has(self.c, cnp.PyArray_DATA(<cnp.ndarray?> array))

    def counters(self):
        """What it has taken and what of that is in use, in bytes, as a dict."""
        return {
            "pool_length": self.c.length, "pool_committed": self.c.committed,
            "pool_in_use": self.c.in_use, "pool_huge_bytes": self.c.huge_bytes,
            "pool_arenas": self.c.arena_count, "pool_refused": self.c.refused,
        }


cdef class RegisteredMemory:
    """Arrays whose data is in a pool: a context for those that NumPy makes, or one by one.

    Parameters
    ----------
    pool : Pool
    """

    def __cinit__(self, Pool pool not None):
        self.pool = pool
        self.handler = pool.capsule()
        self.before = []

    def __enter__(self):
        self.before.append(PyDataMem_SetHandler(self.handler))
        return self

    def __exit__(self, *failure):
        PyDataMem_SetHandler(self.before.pop())
        self.pool.tell()

    def make(self, function, *arguments):
        """What `function` returns, its new arrays in the pool."""
        before = PyDataMem_SetHandler(self.handler)
        try:
            made = function(*arguments)
        finally:
            PyDataMem_SetHandler(before)
        self.pool.tell()
        return made
