# cython: language_level=3
"""Whose memory a message is: the key of the cache of registrations.

Contract: needs the GIL.  Never raises: memory of which this finds no owner is registered for its
message alone.  What is returned stays valid while the caller holds the keeper and the GIL; an
operation that is to use it must name it before (``engine_send``, ``engine_recv``).
"""
from pyrdv.api.buffers cimport span
from pyrdv.engine.engine cimport Engine
from pyrdv.memory.mappings cimport owner_t

# Of the bytes at `at`, which `keeper` holds.  The array that allocated them is known to live as
# long as they do; a bytearray or an mmap may move, and what else an object does with its memory
# is unknown.
cdef owner_t *find_owner(Engine engine, object keeper, const span *at) noexcept
# The array at the end of the base chain of `keeper` that allocated its memory, or None.
cdef object owning_array(object keeper)


cdef inline owner_t *owner_of(Engine engine, object keeper, const span *at) noexcept:
    """`find_owner`, unless the message is too small to need one."""
    if at.nbytes <= engine.registrations.c.least:
        return NULL
    return find_owner(engine, keeper, at)


# `owner_of`, named, so that it stays valid without the GIL: until `unname`.
cdef owner_t *named_owner(Engine engine, object keeper, const span *at) noexcept
cdef void unname(Engine engine, owner_t *owner) noexcept
