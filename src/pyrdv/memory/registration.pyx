# cython: language_level=3
"""The owners of registered memory, watched: an engine's cache of registrations as an object.

The invariants C1 to C7 stand in mappings.pxd.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from pyrdv.memory.mappings cimport (
    CACHE_AUTO, CACHE_OFF, CACHE_TRUST, cache_idle, cache_t, owner_clear, owner_new, owner_recycle,
    owner_t)

from weakref import ref


cdef extern from "fork.h" nogil:
    int fork_watch()
    const unsigned int *fork_counter()

cdef extern from "lock.h" nogil:
    void engine_lock(uint32_t *lock)
    void engine_unlock(uint32_t *lock)


if fork_watch():
    raise MemoryError("pthread_atfork")


cdef enum:
    FIRST_BUCKETS = 256         # a power of two
    FEW = 64                    # owners that are never swept
    ENTRIES_MAX = 1024
    BYTES_MAX = 1 << 30


cdef inline uint32_t bucket_of(const cache_t *c, const void *array) noexcept nogil:
    return <uint32_t> ((<size_t> array >> 4) * <size_t> 0x9E3779B97F4A7C15u >> 40) & c.mask


cdef inline owner_t *owner_find(const cache_t *c, const void *array) noexcept nogil:
    cdef owner_t *o = c.buckets[bucket_of(c, array)]
    while o != NULL and o.array != array:
        o = o.next
    return o


cdef void owner_insert(cache_t *c, owner_t *o) noexcept nogil:
    cdef uint32_t i = bucket_of(c, o.array)
    o.next = c.buckets[i]
    c.buckets[i] = o
    c.owners += 1


cdef void owner_remove(cache_t *c, owner_t *o) noexcept nogil:
    cdef owner_t **at = &c.buckets[bucket_of(c, o.array)]
    while at[0] != o:
        at = &at[0].next
    at[0] = o.next
    c.owners -= 1


cdef void buckets_grow(cache_t *c) noexcept nogil:
    """Twice as many; without memory for them the chains are longer, that is all."""
    cdef uint32_t count = 2 * (c.mask + 1)
    cdef owner_t **before = c.buckets
    cdef owner_t **wider = <owner_t **> calloc(count, sizeof(owner_t *))
    cdef owner_t *o
    cdef owner_t *after
    cdef uint32_t i
    if wider == NULL:
        return
    c.buckets = wider
    c.mask = count - 1
    c.owners = 0
    for i in range(count // 2):
        o = before[i]
        while o != NULL:
            after = o.next
            owner_insert(c, o)
            o = after
    free(before)


cdef void owner_retire(cache_t *c, owner_t *o) noexcept nogil:
    """Out of the table, its mappings given back to the device; free with its last user."""
    owner_remove(c, o)
    owner_clear(c, o)
    o.gone = 1
    if o.users == 0:
        owner_recycle(c, o)


cdef class Watch:
    """The callback of the weak reference to one owner."""

    cdef owner_t *owner         # NULL: nobody wants to know
    cdef PyObject *registrations    # not held: it clears `owner` before it ends

    def __call__(self, reference):
        cdef owner_t *owner = self.owner
        if owner != NULL:
            self.owner = NULL
            (<Registrations> self.registrations).owner_ended(owner)


cdef inline void unwatch(void *reference, void *watch) noexcept:
    """Let the weak reference go.  Runs no Python code."""
    if watch != NULL:
        (<Watch> watch).owner = NULL
    if reference != NULL:
        Py_DECREF(<object> reference)


cdef class Registrations:
    """What an engine keeps registered.

    Parameters
    ----------
    mode : {'auto', 'trust', 'off'}
        ``auto`` keeps what peers may read but not write; ``trust`` also what they may write;
        ``off`` keeps nothing.
    bytes_max : int
        Most memory kept registered, bytes.
    entries_max : int
        Most registrations kept.
    everywhere : bool
        Keep them also where registering costs nothing (for tests).

    Attributes
    ----------
    everywhere : bool

    Raises
    ------
    ValueError
        There is no such mode.
    """

    def __cinit__(self, mode="auto", uint64_t bytes_max=BYTES_MAX, uint32_t entries_max=ENTRIES_MAX,
                  bint everywhere=False):
        if mode not in ("auto", "trust", "off"):
            raise ValueError(f"registrations={mode!r} is neither 'auto', 'trust' nor 'off'")
        self.everywhere = everywhere
        self.forks = fork_counter()[0]
        self.c = <cache_t *> calloc(1, sizeof(cache_t))
        if self.c == NULL:
            raise MemoryError
        self.c.buckets = <owner_t **> calloc(FIRST_BUCKETS, sizeof(owner_t *))
        if self.c.buckets == NULL:
            raise MemoryError
        self.c.mode = <uint8_t> {"off": CACHE_OFF, "auto": CACHE_AUTO, "trust": CACHE_TRUST}[mode]
        self.c.mask = FIRST_BUCKETS - 1
        self.c.least = <uint64_t> -1
        self.c.bytes_max = bytes_max
        self.c.entries_max = entries_max
        self.c.sweep_at = 2 * entries_max + FEW

    def __dealloc__(self):
        cdef owner_t *o
        cdef uint32_t i
        if self.c == NULL:
            return
        if self.c.buckets != NULL:
            for i in range(self.c.mask + 1):
                o = self.c.buckets[i]
                while o != NULL:
                    unwatch(o.reference, o.watch)
                    o = o.next
        for i in range(self.c.slab_count):
            free(self.c.slabs[i])
        free(self.c.slabs)
        free(self.c.buckets)
        free(self.c)

    cdef owner_t *owner(self, object array, void *address, uint64_t length) except? NULL:
        cdef owner_t *o = owner_find(self.c, <void *> array)
        if o == NULL:
            o = watch_new(self, array)
            if o == NULL:
                return NULL
        if o.address != address or o.length != length:
            # New, or moved by resize(refcheck=False) (C4).
            engine_lock(self.c.lock)
            owner_clear(self.c, o)
            o.address = <char *> address
            o.length = length
            engine_unlock(self.c.lock)
        return o

    cdef bint forget(self, object array) except -1:
        cdef owner_t *o = owner_find(self.c, <void *> array)
        if o == NULL:
            return False
        self.owner_ended(o)
        return True

    cdef void owner_ended(self, owner_t *owner) noexcept:
        cdef void *reference = owner.reference
        cdef void *watch = owner.watch
        if self.forks != fork_counter()[0]:
            return              # C7
        engine_lock(self.c.lock)
        owner_retire(self.c, owner)
        engine_unlock(self.c.lock)
        unwatch(reference, watch)

    cdef int end(self) except -1:
        cdef cache_t *c = self.c
        cdef uint32_t i
        if c.ended or self.forks != fork_counter()[0]:
            c.ended = 1
            return 0
        c.least = <uint64_t> -1
        for i in range(c.mask + 1):
            while c.buckets[i] != NULL:
                self.owner_ended(c.buckets[i])
        engine_lock(c.lock)
        cache_idle(c)
        c.ended = 1
        engine_unlock(c.lock)
        return 0

    cdef void abandon(self) noexcept:
        self.c.ended = 1
        self.c.least = <uint64_t> -1

    def counters(self):
        """What was counted since the start, and what is kept now, as a dict."""
        cdef cache_t seen
        # In a forked child another thread of the parent may have the lock for ever (C7).
        cdef uint32_t *lock = self.c.lock if self.forks == fork_counter()[0] else NULL
        # Python code may run while the dict is made: not under the lock (C1).
        if lock != NULL:
            engine_lock(lock)
        seen = self.c[0]
        if lock != NULL:
            engine_unlock(lock)
        return {
            "registration_hits": seen.hits, "registration_misses": seen.misses,
            "registration_evictions": seen.evictions, "registration_ends": seen.ends,
            "registration_unkept": seen.unkept, "registration_bytes": seen.bytes,
            "registration_entries": seen.entries, "registration_owners": seen.owners,
            "registration_pool_bytes": seen.range_bytes,
        }


cdef owner_t *watch_new(Registrations registrations, object array) except? NULL:
    """Begin to watch `array`; NULL: no room for one more."""
    cdef cache_t *c = registrations.c
    cdef owner_t *o
    cdef Watch watch
    if c.ended or c.lock == NULL:
        return NULL
    if c.owners >= c.sweep_at:
        sweep(registrations)
    # Both may start a collection, and that the callback of some other owner: not under the lock.
    watch = Watch.__new__(Watch)
    reference = ref(array, watch)
    o = owner_find(c, <void *> array)
    if o != NULL:
        return o                # somebody was quicker, in a finalizer for instance
    engine_lock(c.lock)
    if c.owners > c.mask:
        buckets_grow(c)
    o = owner_new(c)
    if o != NULL:
        o.array = <void *> array
        o.reference = <void *> reference
        o.watch = <void *> watch
        owner_insert(c, o)
    engine_unlock(c.lock)
    if o != NULL:
        Py_INCREF(reference)
        watch.registrations = <PyObject *> registrations
        watch.owner = o
    return o


cdef int sweep(Registrations registrations) except -1:
    """Forget owners that have nothing registered: arrays that live on, but are sent no more."""
    cdef cache_t *c = registrations.c
    cdef owner_t *o
    cdef owner_t *after
    cdef uint32_t i
    for i in range(c.mask + 1):
        o = c.buckets[i]
        while o != NULL:
            after = o.next
            if o.mappings == NULL and o.users == 0:
                registrations.owner_ended(o)
            o = after
    c.sweep_at = 2 * c.owners + 2 * c.entries_max + FEW
    return 0
