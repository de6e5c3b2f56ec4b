# cython: language_level=3
"""The registration cache: which memory stays registered after the message that needed it.

The invariants C1 to C7 stand in mappings.pxd.  What is registered on a miss:

- the pages of the message, but nothing outside the owner's memory;
- together with what it overlaps or touches: one mapping takes the place of several;
- at least twice the largest of those, so that walking through an array piece by piece registers
  each of its pages about twice, not once per piece;
- with the rights of all that it takes the place of.

A mapping that another takes the place of, whose owner ended, or that is evicted is *dropped*:
nobody finds it any more, and it is given back at once or with its last user.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, malloc
from libc.string cimport memset


cdef enum:
    PAGE = 4096
    PER_SLAB = 64
    USES_GUESS = 4              # of the first owner of a class
    RECENT = 64                 # messages that a class remembers well
    USES_MOST = 1 << 20
    FOREVER = 1 << 20           # uses that make a registration cost nothing
    SLABS_MAX = 1 << 14         # of both kinds: a million structures


# Structures (C5) ----------------------------------------------------------------

cdef void *slab_new(cache_t *c, size_t nbytes) noexcept nogil:
    cdef void *slab
    if c.slab_count == SLABS_MAX:
        return NULL
    if c.slabs == NULL:
        c.slabs = <void **> malloc(SLABS_MAX * sizeof(void *))
        if c.slabs == NULL:
            return NULL
    slab = calloc(PER_SLAB, nbytes)
    if slab != NULL:
        c.slabs[c.slab_count] = slab
        c.slab_count += 1
    return slab


cdef mapping_t *mapping_new(cache_t *c) noexcept nogil:
    cdef mapping_t *slab
    cdef mapping_t *m
    cdef int i
    if c.mapping_free == NULL:
        slab = <mapping_t *> slab_new(c, sizeof(mapping_t))
        if slab == NULL:
            return NULL
        for i in range(PER_SLAB):
            slab[i].next = c.mapping_free
            c.mapping_free = &slab[i]
    m = c.mapping_free
    c.mapping_free = m.next
    memset(m, 0, sizeof(mapping_t))
    return m


cdef inline void mapping_recycle(cache_t *c, mapping_t *m) noexcept nogil:
    m.owner = NULL
    m.next = c.mapping_free
    c.mapping_free = m


cdef owner_t *owner_new(cache_t *c) noexcept nogil:
    cdef owner_t *slab
    cdef owner_t *o
    cdef int i
    if c.owner_free == NULL:
        slab = <owner_t *> slab_new(c, sizeof(owner_t))
        if slab == NULL:
            return NULL
        for i in range(PER_SLAB):
            slab[i].next = c.owner_free
            c.owner_free = &slab[i]
    o = c.owner_free
    c.owner_free = o.next
    memset(o, 0, sizeof(owner_t))
    return o


cdef void owner_recycle(cache_t *c, owner_t *o) noexcept nogil:
    o.next = c.owner_free
    c.owner_free = o


cdef void cache_name(owner_t *owner) noexcept nogil:
    if owner != NULL:
        owner.users += 1


cdef void cache_unname(cache_t *c, owner_t *owner) noexcept nogil:
    if owner != NULL:
        owner.users -= 1
        if owner.gone and owner.users == 0:
            owner_recycle(c, owner)


# Mappings -----------------------------------------------------------------------

cdef void order_remove(cache_t *c, mapping_t *m) noexcept nogil:
    if m.newer != NULL:
        m.newer.older = m.older
    else:
        c.newest = m.older
    if m.older != NULL:
        m.older.newer = m.newer
    else:
        c.oldest = m.newer
    m.newer = m.older = NULL


cdef void order_first(cache_t *c, mapping_t *m) noexcept nogil:
    m.newer = NULL
    m.older = c.newest
    if c.newest != NULL:
        c.newest.newer = m
    c.newest = m
    if c.oldest == NULL:
        c.oldest = m


cdef void give_back(cache_t *c, mapping_t *m) noexcept nogil:
    """Nobody uses it and nobody finds it."""
    if not c.ended:
        c.devices[m.device].deregister(c.devices[m.device].handle, m.key, m.address, m.length)
    mapping_recycle(c, m)


cdef void drop(cache_t *c, mapping_t *m) noexcept nogil:
    cdef owner_t *o = m.owner
    cdef mapping_t **at = &o.mappings
    while at[0] != m:
        at = &at[0].next
    at[0] = m.next
    if o.range_:
        c.range_bytes -= m.length
    else:
        order_remove(c, m)
        c.bytes -= m.length
        c.entries -= 1
    m.owner = NULL
    if m.users == 0:
        give_back(c, m)


cdef void flush(cache_t *c) noexcept nogil:
    cdef int i
    for i in range(c.device_count):
        if c.devices[i].flush != NULL and not c.ended:
            c.devices[i].flush(c.devices[i].handle)


cdef uint64_t evict_oldest(cache_t *c) noexcept nogil:
    """Drop the one that was not used for longest; its length, 0: all are in use."""
    cdef mapping_t *m = c.oldest
    cdef uint64_t length
    while m != NULL and m.users:
        m = m.newer
    if m == NULL:
        return 0
    length = m.length
    drop(c, m)
    c.evictions += 1
    return length


cdef bint cache_shed(cache_t *c, uint64_t length) noexcept nogil:
    cdef uint64_t freed = 0
    cdef uint64_t one = 1
    if c.ended:
        return False
    while freed < length and one:
        one = evict_oldest(c)
        freed += one
    if freed:
        flush(c)
    return freed != 0


cdef bint make_room(cache_t *c, uint64_t length) noexcept nogil:
    if length > c.bytes_max:
        return False
    while c.bytes + length > c.bytes_max or c.entries >= c.entries_max:
        if evict_oldest(c) == 0:
            return False
    return True


cdef mapping_t *covering(const owner_t *o, int device, const char *address, uint64_t length,
                         int access) noexcept nogil:
    cdef mapping_t *m = o.mappings
    while m != NULL:
        if m.device == device and access & ~m.access == 0 and address >= m.address \
                and address + length <= m.address + m.length:
            return m
        m = m.next
    return NULL


cdef mapping_t *enter(cache_t *c, owner_t *o, int device, char *begin, uint64_t length,
                      int access) noexcept nogil:
    """Register this and keep it; NULL: no room, or the device refuses."""
    cdef device_t *d = &c.devices[device]
    cdef mapping_t *m
    cdef uint64_t key
    cdef int status
    if not o.range_ and not make_room(c, length) and not o.pins:
        return NULL
    m = mapping_new(c)
    if m == NULL:
        return NULL
    while True:
        status = d.register_memory(d.handle, begin, length, access, &key)
        if status != CACHE_LACKS or not cache_shed(c, length):
            break
    if status != CACHE_OK:
        mapping_recycle(c, m)
        return NULL
    m.owner = o
    m.address = begin
    m.length = length
    m.key = key
    m.access = access
    m.device = <uint8_t> device
    m.next = o.mappings
    o.mappings = m
    if o.range_:
        c.range_bytes += length
    else:
        order_first(c, m)
        c.bytes += length
        c.entries += 1
    return m


cdef inline char *page_floor(char *at) noexcept nogil:
    return <char *> (<size_t> at & ~<size_t> (PAGE - 1))


cdef struct window_t:
    char *begin
    char *end
    int access


cdef inline void clip(window_t *w, const owner_t *o) noexcept nogil:
    if w.begin < o.address:
        w.begin = o.address
    if w.end > o.address + o.length:
        w.end = o.address + o.length


cdef void widen(cache_t *c, const owner_t *o, int device, window_t *w) noexcept nogil:
    """Grow `w` by what it overlaps or touches, and beyond (see above), unless that is too much."""
    cdef window_t plain = w[0]
    cdef uint64_t largest = 0
    cdef bint fits_one = False
    cdef bint grown = True
    cdef const mapping_t *m
    while grown:
        grown = False
        m = o.mappings
        while m != NULL:
            if m.device == device and m.address <= w.end and w.begin <= m.address + m.length:
                grown = grown or m.address < w.begin or m.address + m.length > w.end \
                    or m.access & ~w.access
                fits_one = fits_one or (m.address <= plain.begin
                                        and plain.end <= m.address + m.length)
                w.begin = min(w.begin, m.address)
                w.end = max(w.end, m.address + m.length)
                w.access |= m.access
                largest = max(largest, m.length)
            m = m.next
    if not fits_one and <uint64_t> (w.end - w.begin) < 2 * largest:
        # Further in the direction in which the program seems to walk.
        if w.begin < plain.begin:
            w.end = w.begin + 2 * largest
        elif <uint64_t> (w.end - o.address) > 2 * largest:
            w.begin = w.end - 2 * largest
        else:
            w.begin = o.address
        clip(w, o)
    if <uint64_t> (w.end - w.begin) > c.bytes_max // 2 and not o.range_:
        w[0] = plain


cdef mapping_t *cover(cache_t *c, owner_t *o, int device, char *address, uint64_t length,
                      int access) noexcept nogil:
    cdef window_t plain, w
    cdef mapping_t *m
    cdef mapping_t *other
    cdef mapping_t *after
    plain.begin = o.address if o.range_ else page_floor(address)
    plain.end = o.address + o.length if o.range_ else page_floor(address + length + (PAGE - 1))
    plain.access = access
    clip(&plain, o)
    w = plain
    widen(c, o, device, &w)
    m = enter(c, o, device, w.begin, w.end - w.begin, w.access)
    if m == NULL and (w.begin != plain.begin or w.end != plain.end or w.access != plain.access):
        m = enter(c, o, device, plain.begin, plain.end - plain.begin, plain.access)
    if m == NULL:
        return NULL
    other = o.mappings
    while other != NULL:
        after = other.next
        if other != m and other.device == device and other.access & ~m.access == 0 \
                and other.address >= m.address \
                and other.address + other.length <= m.address + m.length:
            drop(c, other)
        other = after
    return m


cdef mapping_t *cache_take(cache_t *c, owner_t *owner, int device, void *address, uint64_t length,
                           int access) noexcept nogil:
    cdef mapping_t *m
    cdef char *at = <char *> address
    if owner == NULL or owner.gone or c.ended or not c.devices[device].keeps \
            or access & c.devices[device].exposed:
        return NULL
    if at < owner.address or length > owner.length \
            or <uint64_t> (at - owner.address) > owner.length - length:
        return NULL
    m = covering(owner, device, at, length, access)
    if m != NULL:
        c.hits += 1
    else:
        c.misses += 1
        m = cover(c, owner, device, at, length, access)
        if m == NULL:
            c.unkept += 1
            return NULL
    m.users += 1
    if not owner.range_ and c.newest != m:
        order_remove(c, m)
        order_first(c, m)
    return m


cdef bint cache_holds(const cache_t *c, const owner_t *owner, int device, const void *address,
                      uint64_t length, int access) noexcept nogil:
    return owner != NULL and not owner.gone and not c.ended and c.devices[device].keeps \
        and not access & c.devices[device].exposed \
        and covering(owner, device, <const char *> address, length, access) != NULL


# Reuse -------------------------------------------------------------------------

cdef inline int history_of(const owner_t *o) noexcept nogil:
    cdef uint64_t length = o.length
    cdef int i = 0
    while length > 1 and i < HISTORIES - 1:
        length >>= 1
        i += 1
    return i


cdef double cache_uses(const cache_t *c, const owner_t *owner, int device,
                       int access) noexcept nogil:
    cdef const history_t *h
    cdef double uses
    if owner == NULL or owner.gone or c.ended or not c.devices[device].keeps \
            or access & c.devices[device].exposed:
        return 1
    if owner.pins or owner.range_:
        return FOREVER          # somebody asked for it
    # As often again as before; of one that is new, as often as others of its class.
    h = &c.histories[history_of(owner)]
    uses = (h.uses + USES_GUESS) / (h.firsts + 1)
    return max(uses, <double> owner.uses + 1)


cdef void cache_used(cache_t *c, owner_t *owner) noexcept nogil:
    cdef history_t *h
    if owner == NULL:
        return
    h = &c.histories[history_of(owner)]
    if owner.uses == 0:
        h.firsts += 1
    h.uses += 1
    if h.uses > RECENT:
        h.uses /= 2
        h.firsts /= 2
    if owner.uses < USES_MOST:
        owner.uses += 1


cdef void cache_give(cache_t *c, mapping_t *mapping) noexcept nogil:
    mapping.users -= 1
    if mapping.users == 0 and mapping.owner == NULL:
        give_back(c, mapping)


# Owners ------------------------------------------------------------------------

cdef bint owner_clear(cache_t *c, owner_t *o) noexcept nogil:
    if o.mappings == NULL:
        return False
    while o.mappings != NULL:
        drop(c, o.mappings)
    c.ends += 1
    flush(c)
    return True


cdef void drop_idle(cache_t *c, owner_t *o) noexcept nogil:
    cdef mapping_t *m = o.mappings
    cdef mapping_t *after
    while m != NULL:
        after = m.next
        if m.users == 0:
            drop(c, m)
        m = after


cdef void cache_idle(cache_t *c) noexcept nogil:
    cdef owner_t *o
    cdef uint32_t i
    for i in range(c.mask + 1):
        o = c.buckets[i]
        while o != NULL:
            drop_idle(c, o)
            o = o.next
    o = c.ranges
    while o != NULL:
        drop_idle(c, o)
        o = o.next
    flush(c)


cdef owner_t *range_new(cache_t *c, void *address, uint64_t length) noexcept nogil:
    cdef owner_t *o
    if c.ended:
        return NULL
    o = owner_new(c)
    if o != NULL:
        o.range_ = 1
        o.address = <char *> address
        o.length = length
        o.next = c.ranges
        c.ranges = o
    return o


cdef bint range_prepare(cache_t *c, owner_t *owner) noexcept nogil:
    cdef mapping_t *m
    cdef device_t *d
    cdef int i
    for i in range(c.device_count):
        d = &c.devices[i]
        if d.keeps and d.rights & ~d.exposed:
            m = cover(c, owner, i, owner.address, owner.length, d.rights & ~d.exposed)
            if m == NULL:
                return False
    return True


cdef void range_end(cache_t *c, owner_t *owner) noexcept nogil:
    cdef owner_t **at = &c.ranges
    while at[0] != owner:
        at = &at[0].next
    at[0] = owner.next
    owner_clear(c, owner)
    owner.gone = 1
    if owner.users == 0:
        owner_recycle(c, owner)


cdef owner_t *range_find(const cache_t *c, const void *address, uint64_t length) noexcept nogil:
    cdef const char *at = <const char *> address
    cdef owner_t *o = c.ranges
    while o != NULL and (at < o.address or length > o.length
                         or <uint64_t> (at - o.address) > o.length - length):
        o = o.next
    return o
