# cython: language_level=3
"""NumPy arrays whose data lives in a pool of registered memory (NEP 49).

Contract: methods need the GIL.  The four functions of the handler run in any thread, with or
without it, and never raise.  An array holds the handler's capsule, the capsule holds the `Pool`:
so the pool ends after its last array.
"""
from pyrdv.memory.pool cimport pool_t
from pyrdv.memory.registration cimport Registrations


cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyDataMemAllocator:
        void *ctx
        void *(*malloc)(void *ctx, size_t size) noexcept nogil
        void *(*calloc)(void *ctx, size_t count, size_t size) noexcept nogil
        void *(*realloc)(void *ctx, void *address, size_t size) noexcept nogil
        void (*free)(void *ctx, void *address, size_t size) noexcept nogil
    ctypedef struct PyDataMem_Handler:
        char name[127]
        unsigned char version
        PyDataMemAllocator allocator
    object PyDataMem_SetHandler(object handler)


cdef class Pool:
    """Memory for arrays: registered, in huge pages where there are some, used again and again."""
    cdef pool_t *c
    cdef PyDataMem_Handler handler
    cdef readonly Registrations registrations
    cdef object keeper              # keeps the engine of `registrations`
    cdef bint told                  # that it is full
    cdef object __weakref__
    # A capsule for PyDataMem_SetHandler.
    cdef object capsule(self)
    # Warn, once, if memory was asked for that the pool had no room for.
    cdef int tell(self) except -1


cdef class RegisteredMemory:
    """A context in which NumPy's new arrays have their data in a pool; in one thread at a time."""
    cdef readonly Pool pool
    cdef object handler             # the capsule
    cdef list before                # handlers that were in force, one per `with` under way
