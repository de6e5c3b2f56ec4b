# cython: language_level=3
"""Pools of what steps take: unexpected messages, blocks for their data, and offers.

The step may not allocate (R1).  So pools are filled by calls; when the step
finds one empty it leaves the packet with the fabric, whose credits then run
dry (back-pressure), and notes what it missed in ``engine.starved``.
Slabs are kept until the engine ends; how much they can grow is bounded by the
eager credits that peers hold (``peer.pyx``).
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from pyrdv.engine.calling cimport call_proven
from pyrdv.engine.state cimport (
    DATA_CLASSES, MESSAGES_LOW, OFFERS_LOW, OP_NO_MEMORY, call_t, engine_t, message_t, offer_t)


cdef enum:
    MESSAGES_PER_SLAB = 128
    OFFERS_PER_SLAB = 64
    DATA_SLAB = 1 << 16
    STARVED_MESSAGES = 31


cdef void *memory_new(call_t *call, size_t nbytes) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef void **wider
    cdef void *slab
    call_proven(call)
    if e.slab_count == e.slab_room:
        wider = <void **> realloc(e.slabs, (e.slab_room * 2 + 16) * sizeof(void *))
        if wider == NULL:
            return NULL
        e.slabs = wider
        e.slab_room = e.slab_room * 2 + 16
    slab = malloc(nbytes)
    if slab != NULL:
        e.slabs[e.slab_count] = slab
        e.slab_count += 1
        e.slab_bytes += nbytes
    return slab


cdef message_t *message_new(engine_t *e, uint64_t length) noexcept nogil:
    cdef message_t *m = e.message_free
    cdef int c = 0
    cdef void **block
    if m == NULL:
        e.starved |= <uint32_t> 1 << STARVED_MESSAGES
    if length:
        c = class_of(length)
        block = <void **> e.data_free[c]
        if block == NULL:
            # Both are noted, so that one refill is enough.
            e.starved |= <uint32_t> 1 << c
            return NULL
    if m == NULL:
        return NULL
    if length:
        e.data_free[c] = block[0]
        m.data = block
    else:
        m.data = NULL
    m.data_class = <uint8_t> c
    e.message_free = m.next
    e.message_free_count -= 1
    e.messages_in_use += 1
    m.next = NULL
    m.queued = 0
    m.flags = 0
    m.sender = NULL
    return m


cdef void message_release(engine_t *e, message_t *m) noexcept nogil:
    cdef void **block
    if m.data != NULL:
        block = <void **> m.data
        block[0] = e.data_free[m.data_class]
        e.data_free[m.data_class] = block
        m.data = NULL
    m.next = e.message_free
    e.message_free = m
    e.message_free_count += 1
    e.messages_in_use -= 1


cdef bint messages_grow(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef uint32_t i
    cdef message_t *slab = <message_t *> memory_new(call, MESSAGES_PER_SLAB * sizeof(message_t))
    if slab == NULL:
        return False
    memset(slab, 0, MESSAGES_PER_SLAB * sizeof(message_t))
    for i in range(MESSAGES_PER_SLAB):
        slab[i].next = e.message_free
        e.message_free = &slab[i]
    e.message_free_count += MESSAGES_PER_SLAB
    return True


cdef bint messages_reserve(call_t *call, uint32_t count) noexcept nogil:
    cdef engine_t *e = &call.engine
    while e.message_free_count < count:
        if not messages_grow(call):
            return False
    return True


cdef bint data_grow(call_t *call, int c) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef size_t block = <size_t> 64 << c
    cdef size_t total = DATA_SLAB if block < DATA_SLAB else block
    cdef char *slab = <char *> memory_new(call, total)
    cdef size_t at = 0
    if slab == NULL:
        return False
    while at < total:
        (<void **> (slab + at))[0] = e.data_free[c]
        e.data_free[c] = slab + at
        at += block
    return True


cdef bint data_reserve(call_t *call, int c, uint32_t count) noexcept nogil:
    cdef void **block = <void **> call.engine.data_free[c]
    while count and block != NULL:
        block = <void **> block[0]
        count -= 1
    while count and data_grow(call, c):
        count -= min(count, <uint32_t> (DATA_SLAB // (<size_t> 64 << c) or 1))
    return count == 0


cdef bint offers_grow(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef uint32_t i
    cdef offer_t *slab = <offer_t *> memory_new(call, OFFERS_PER_SLAB * sizeof(offer_t))
    if slab == NULL:
        return False
    for i in range(OFFERS_PER_SLAB):
        slab[i].next = e.offer_free
        e.offer_free = &slab[i]
    e.offer_free_count += OFFERS_PER_SLAB
    return True


cdef int pools_reserve(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int c
    cdef bint well = True
    if e.policy.offers and e.offer_free_count < OFFERS_LOW:
        # Without offers there are only fewer speculative transfers.
        offers_grow(call)
    if e.message_free_count < MESSAGES_LOW:
        well = messages_grow(call)
    if e.starved:
        for c in range(DATA_CLASSES):
            if e.starved >> c & 1:
                well = data_grow(call, c) and well
        e.starved = 0
    return 0 if well else OP_NO_MEMORY


cdef void pools_free(engine_t *e) noexcept nogil:
    cdef uint32_t i
    for i in range(e.slab_count):
        free(e.slabs[i])
    free(e.slabs)
    e.slabs = NULL
    e.slab_count = 0
