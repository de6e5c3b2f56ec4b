# cython: language_level=3
"""A pool of registered memory: pages handed out by the thousand, registered by the arena.

Contract: any thread, with or without the GIL, but for `pool_close` and what says so.  Takes the
pool's lock and, to register an arena, the engine's behind it; nobody takes them the other way
round.

A1  The pool reserves its whole range of addresses at the start and commits *arenas* of it, one
    behind the other.  So whether memory is the pool's is a question of two comparisons.
A2  An arena is committed, registered, and never given back before the pool ends: what was promised
    to be registered stays so, and a free extent costs nothing but memory.
A3  An extent is a run of pages inside one arena, free or in use.  Its length stands at its first
    page and at its last, apart from the memory itself, which is the user's to overwrite.  No two
    free extents of an arena are neighbours.
A4  A forked child takes nothing from the pool and gives nothing back: its lock may be held for
    good.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pyrdv.memory.mappings cimport cache_t, owner_t


cdef enum:
    POOL_PAGE = 4096
    POOL_BINS = 32
    ARENAS_MAX = 1024

cdef struct page_t:
    uint32_t length             # first and last page of an extent: its pages, with flags
    uint32_t next               # first page of a free extent: the next of its bin, plus 1
    uint32_t back

cdef struct arena_t:
    char *address
    uint64_t length
    owner_t *owner              # NULL: not registered

cdef struct pool_t:
    uint32_t lock
    unsigned int forks
    char *base
    uint64_t length             # reserved
    uint64_t committed
    uint64_t arena_least
    uint32_t bins[POOL_BINS]    # first page of the first free extent, plus 1; by its magnitude
    page_t *pages
    arena_t arenas[ARENAS_MAX]
    int arena_count
    cache_t *cache              # where arenas are registered, or NULL
    uint8_t exhausted           # committing more has failed
    uint8_t huge                # MAP_HUGETLB is worth a try
    uint64_t in_use             # bytes
    uint64_t huge_bytes         # committed as huge pages
    uint64_t refused            # requests that found no room

# 0, or an errno.  `length` is rounded up to whole huge pages.
cdef int pool_open(pool_t *p, uint64_t length, uint64_t arena_least) noexcept nogil
# Nothing of it is in use any more, and no cache is attached.
cdef void pool_close(pool_t *p) noexcept nogil
# Register all arenas with `cache`, and those to come; NULL: with none.  Returns whether all are.
cdef bint pool_attach(pool_t *p, cache_t *cache) noexcept nogil
# At least `nbytes` bytes, aligned to a page, contents undefined; NULL: there is no room.
cdef void *pool_new(pool_t *p, size_t nbytes) noexcept nogil
# What pool_new or pool_resize returned.
cdef void pool_free(pool_t *p, void *address) noexcept nogil
# Bytes that may be used at `address`.
cdef size_t pool_size(pool_t *p, const void *address) noexcept nogil
# Keep only the pages that `nbytes` bytes need; False: they are too few already.
cdef bint pool_shrink(pool_t *p, void *address, size_t nbytes) noexcept nogil


cdef inline bint pool_has(const pool_t *p, const void *address) noexcept nogil:
    return <const char *> address >= p.base and <const char *> address < p.base + p.length
