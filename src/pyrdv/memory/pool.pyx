# cython: language_level=3
"""A pool of registered memory: pages handed out by the thousand, registered by the arena.

The invariants A1 to A4 stand in pool.pxd.
"""
from libc.errno cimport errno
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.memory.mappings cimport cache_t, range_end, range_new, range_prepare


cdef extern from "fork.h" nogil:
    int fork_watch()
    const unsigned int *fork_counter()

cdef extern from "lock.h" nogil:
    void engine_lock(uint32_t *lock)
    void engine_unlock(uint32_t *lock)

cdef extern from "<sys/mman.h>" nogil:
    int PROT_NONE, PROT_READ, PROT_WRITE
    int MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_FIXED, MAP_HUGETLB
    int MADV_HUGEPAGE
    void *MAP_FAILED
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void *address, size_t length)
    int madvise(void *address, size_t length, int advice)

cdef extern from *:
    int __builtin_clz(unsigned int value) nogil


if fork_watch():
    raise MemoryError("pthread_atfork")


cdef enum:
    HUGE = 1 << 21
    USED = 1 << 31              # in page_t.length
    EDGE = 1 << 30              # first page of an arena: what is before is another one
    COUNT = EDGE - 1
    BIN_LOOKS = 32              # extents of the request's own magnitude that are looked at
    POPULATE_WRITE = 23         # MADV_POPULATE_WRITE of Linux 5.14
    HUGE_SIZE = 21 << 26        # MAP_HUGE_2MB


cdef inline uint64_t round_up(uint64_t value, uint64_t unit) noexcept nogil:
    return (value + unit - 1) // unit * unit


cdef inline uint32_t page_of(const pool_t *p, const void *address) noexcept nogil:
    return <uint32_t> (<uint64_t> (<const char *> address - p.base) // POOL_PAGE)


cdef inline int bin_of(uint32_t count) noexcept nogil:
    return 31 - __builtin_clz(count)


# Extents ------------------------------------------------------------------------

cdef void mark(pool_t *p, uint32_t first, uint32_t count, uint32_t used) noexcept nogil:
    """Write the ends of an extent, its edge kept (A3)."""
    cdef uint32_t edge = p.pages[first].length & EDGE
    p.pages[first + count - 1].length = count | used
    p.pages[first].length = count | used | edge


cdef void put(pool_t *p, uint32_t first, uint32_t count) noexcept nogil:
    """A free extent, into its bin."""
    cdef int b = bin_of(count)
    mark(p, first, count, 0)
    p.pages[first].back = 0
    p.pages[first].next = p.bins[b]
    if p.bins[b]:
        p.pages[p.bins[b] - 1].back = first + 1
    p.bins[b] = first + 1


cdef void take(pool_t *p, uint32_t first) noexcept nogil:
    """Out of its bin again."""
    cdef page_t *page = &p.pages[first]
    if page.back:
        p.pages[page.back - 1].next = page.next
    else:
        p.bins[bin_of(page.length & COUNT)] = page.next
    if page.next:
        p.pages[page.next - 1].back = page.back


cdef uint32_t find(const pool_t *p, uint32_t count) noexcept nogil:
    """First page, plus 1, of a free extent of at least `count` pages; 0: there is none."""
    cdef int b = bin_of(count)
    cdef uint32_t at = p.bins[b]
    cdef int looks = 0
    while at and looks < BIN_LOOKS:
        if p.pages[at - 1].length & COUNT >= count:
            return at
        at = p.pages[at - 1].next
        looks += 1
    b += 1
    while b < POOL_BINS:
        if p.bins[b]:
            return p.bins[b]
        b += 1
    return 0


cdef void release(pool_t *p, uint32_t first, uint32_t count) noexcept nogil:
    """Free an extent, joined with its free neighbours of the same arena."""
    cdef uint32_t end = first + count
    cdef uint32_t other
    if <uint64_t> end * POOL_PAGE < p.committed and not p.pages[end].length & (USED | EDGE):
        take(p, end)
        count += p.pages[end].length & COUNT
    if not p.pages[first].length & EDGE and not p.pages[first - 1].length & USED:
        other = p.pages[first - 1].length & COUNT
        take(p, first - other)
        first -= other
        count += other
    put(p, first, count)


# Arenas -------------------------------------------------------------------------

cdef bint commit_huge(pool_t *p, char *at, uint64_t length) noexcept nogil:
    """Huge pages that the administrator has set aside, all of them now.

    A page that is missing later, for a control group's limit say, would be a SIGBUS.
    """
    if mmap(at, length, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB | HUGE_SIZE, -1, 0) == MAP_FAILED:
        return False
    if madvise(at, length, POPULATE_WRITE):
        return False
    p.huge_bytes += length
    return True


cdef bint commit(pool_t *p, char *at, uint64_t length) noexcept nogil:
    if p.huge:
        if commit_huge(p, at, length):
            return True
        p.huge = 0
    if mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
            -1, 0) == MAP_FAILED:
        return False
    # Else the kernel joins pages by itself if it may; an error means that it may not.
    madvise(at, length, MADV_HUGEPAGE)
    return True


cdef void uncommit(char *at, uint64_t length) noexcept nogil:
    mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)


cdef bint register_arena(pool_t *p, arena_t *arena) noexcept nogil:
    cdef cache_t *cache = p.cache
    cdef bint well = True
    arena.owner = NULL
    if cache == NULL:
        return True
    engine_lock(cache.lock)
    if not cache.ended:
        arena.owner = range_new(cache, arena.address, arena.length)
        well = arena.owner != NULL and range_prepare(cache, arena.owner)
        if not well and arena.owner != NULL:
            range_end(cache, arena.owner)
            arena.owner = NULL
    engine_unlock(cache.lock)
    return well


cdef bint grow(pool_t *p, uint64_t nbytes) noexcept nogil:
    """One more arena with room for `nbytes`."""
    cdef uint64_t length = round_up(nbytes, HUGE)
    cdef arena_t *arena = &p.arenas[p.arena_count]
    cdef uint32_t first
    if p.exhausted or p.arena_count == ARENAS_MAX or length > p.length - p.committed:
        return False
    length = min(max(length, p.arena_least), p.length - p.committed)
    arena.address = p.base + p.committed
    arena.length = length
    if not commit(p, arena.address, length) or not register_arena(p, arena):
        uncommit(arena.address, length)
        p.exhausted = 1
        return False
    first = page_of(p, arena.address)
    p.pages[first].length = EDGE
    p.committed += length
    p.arena_count += 1
    put(p, first, <uint32_t> (length // POOL_PAGE))
    return True


# What the others call -------------------------------------------------------------

cdef int pool_open(pool_t *p, uint64_t length, uint64_t arena_least) noexcept nogil:
    cdef void *made
    cdef uint64_t table
    memset(p, 0, sizeof(pool_t))
    p.forks = fork_counter()[0]
    p.huge = 1
    p.arena_least = round_up(arena_least, HUGE)
    p.length = round_up(length, HUGE)
    table = p.length // POOL_PAGE * sizeof(page_t)
    # Reserved only; and one huge page more, to begin at the boundary of one.
    made = mmap(NULL, p.length + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0)
    if made == MAP_FAILED:
        return errno
    p.base = <char *> round_up(<uint64_t> made, HUGE)
    munmap(made, p.base - <char *> made)
    munmap(p.base + p.length, HUGE - (p.base - <char *> made))
    made = mmap(NULL, table, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if made == MAP_FAILED:
        munmap(p.base, p.length)
        return errno
    p.pages = <page_t *> made
    return 0


cdef void pool_close(pool_t *p) noexcept nogil:
    munmap(p.pages, p.length // POOL_PAGE * sizeof(page_t))
    munmap(p.base, p.length)


cdef bint pool_attach(pool_t *p, cache_t *cache) noexcept nogil:
    cdef bint well = True
    cdef int i
    if p.forks != fork_counter()[0]:
        return False
    engine_lock(&p.lock)
    for i in range(p.arena_count):
        if p.arenas[i].owner != NULL:
            engine_lock(p.cache.lock)
            range_end(p.cache, p.arenas[i].owner)
            engine_unlock(p.cache.lock)
            p.arenas[i].owner = NULL
    p.cache = cache
    p.exhausted = 0
    for i in range(p.arena_count):
        well = register_arena(p, &p.arenas[i]) and well
    engine_unlock(&p.lock)
    return well


cdef void *pool_new(pool_t *p, size_t nbytes) noexcept nogil:
    cdef uint64_t wanted = round_up(nbytes if nbytes else 1, POOL_PAGE)
    cdef uint32_t count, first, rest
    cdef uint32_t found = 0
    if p.forks != fork_counter()[0]:
        return NULL
    engine_lock(&p.lock)
    # More than there are addresses would not fit into `count`.
    count = <uint32_t> (wanted // POOL_PAGE) if nbytes <= p.length else 0
    if count:
        found = find(p, count)
    if count and not found and grow(p, wanted):
        found = find(p, count)
    if found:
        first = found - 1
        take(p, first)
        rest = (p.pages[first].length & COUNT) - count
        mark(p, first, count, USED)
        if rest:
            p.pages[first + count].length = 0
            put(p, first + count, rest)
        p.in_use += wanted
    else:
        p.refused += 1
    engine_unlock(&p.lock)
    return p.base + <uint64_t> first * POOL_PAGE if found else NULL


cdef void pool_free(pool_t *p, void *address) noexcept nogil:
    cdef uint32_t first = page_of(p, address)
    cdef uint32_t count
    if p.forks != fork_counter()[0]:
        return
    engine_lock(&p.lock)
    count = p.pages[first].length & COUNT
    p.in_use -= <uint64_t> count * POOL_PAGE
    release(p, first, count)
    engine_unlock(&p.lock)


cdef size_t pool_size(pool_t *p, const void *address) noexcept nogil:
    # The caller's own extent: nobody else writes there.
    return <size_t> (p.pages[page_of(p, address)].length & COUNT) * POOL_PAGE


cdef bint pool_shrink(pool_t *p, void *address, size_t nbytes) noexcept nogil:
    cdef uint32_t first = page_of(p, address)
    cdef uint32_t before = p.pages[first].length & COUNT
    cdef uint64_t wanted = round_up(nbytes if nbytes else 1, POOL_PAGE) // POOL_PAGE
    if wanted > before:
        return False
    if wanted < before and p.forks == fork_counter()[0]:
        engine_lock(&p.lock)
        mark(p, first, <uint32_t> wanted, USED)
        p.pages[first + wanted].length = 0
        p.in_use -= (before - wanted) * POOL_PAGE
        release(p, first + <uint32_t> wanted, before - <uint32_t> wanted)
        engine_unlock(&p.lock)
    return True
