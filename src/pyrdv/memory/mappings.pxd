# cython: language_level=3
"""The registration cache: which memory stays registered after the message that needed it.

This module keeps the mappings; ``registration`` watches their owners.

Registering is slow, so what was registered for one message is kept for the next one from the
same array.  That is safe only if it is given back before the memory is: an address says nothing,
for the next array may get the same.  So the cache is keyed by the *owner* of the memory, the
NumPy array that allocated it, and watches it by a weak reference.

Contexts as in ``fabrics/contract.pxd``: *step* and *call* functions run under the engine's lock
(`cache_t.lock`), with or without the GIL.  Methods of `Registrations` need the GIL and take the
lock themselves; they may run any Python code before and after, never under it.

C1  No Python code runs under the lock, and nobody who holds it waits for the GIL.  So the weak
    reference's callback, which comes at any time in any thread that has the GIL, may wait for
    the lock: its own thread never holds it, and who does gives it back after bounded work.
C2  The callback runs while the owner's memory is still there (NumPy clears weak references before
    it frees), and returns when the device knows the memory no longer.  Only then it is freed.
    And NumPy moves or shrinks no array that is watched.
C3  An owner named by an operation is alive, for the operation's keeper holds it (R3).  So a
    callback finds no mapping in use.  Should it nevertheless, that mapping ends with its last user.
C4  A mapping lies inside what the owner was seen to have.  Each look compares pointer and length
    with the array; if they differ, its mappings go.
C5  Structures are never freed while the engine lives, only used again: an operation that is
    completed after the end of its owner or of the cache still finds them.
C6  What lets a peer write (`device_t.exposed`) is not kept: the peer could for as long as it is.
C7  A forked child forgets: its regions are the parent's, and so may the lock be.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum:
    DEVICES_MAX = 4
    HISTORIES = 48              # classes of owners by the logarithm of their length

cdef enum cache_mode:
    CACHE_OFF = 0
    CACHE_AUTO = 1              # keep what peers may only read
    CACHE_TRUST = 2             # keep also what they may write into

# What `device_t.register_memory` answers.
cdef enum cache_status:
    CACHE_OK = 0
    CACHE_LACKS = 1             # no room now: worth trying again with less registered
    CACHE_REFUSED = 2           # never with this memory

cdef struct device_t:           # how memory is registered; the functions are given by the engine
    void *handle
    # call.  A cache_status; fills `key`.
    int (*register_memory)(void *handle, void *address, uint64_t length, int access,
                           uint64_t *key) noexcept nogil
    # step.
    void (*deregister)(void *handle, uint64_t key, void *address,
                       uint64_t length) noexcept nogil
    # call.  Have the device forget now what was deregistered; NULL: it has already.
    void (*flush)(void *handle) noexcept nogil
    int rights                  # all that messages may need
    int sources                 # of them, those of memory that is only sent
    int exposed                 # rights by which a peer may write: not kept (C6)
    uint8_t keeps               # registering here is worth keeping at all

cdef struct mapping_t:          # one registered interval of an owner, at one device
    mapping_t *next             # of its owner; or free
    mapping_t *newer            # in order of use; not for those of ranges
    mapping_t *older
    owner_t *owner              # NULL: nobody finds it any more; it goes with its last user
    char *address
    uint64_t length
    uint64_t key
    uint32_t users
    int access
    uint8_t device

cdef struct owner_t:
    owner_t *next               # of its bucket, of the ranges; or free
    void *array                 # not held; NULL: a range
    void *reference             # weak reference to it, held; under the GIL
    void *watch                 # its callback, which it holds
    char *address
    uint64_t length
    mapping_t *mappings
    uint32_t users              # operations and handles that name it
    uint32_t uses               # messages from or into it that asked for a registration
    uint32_t pins               # handles by which somebody asked for it: not bounded
    uint8_t range_              # memory kept by somebody else: registered whole, not evicted
    uint8_t gone                # in no table any more; free with its last user
    uint8_t roomed              # the pages of a room in it were asked for, or a message came there

cdef struct history_t:          # of owners of one class; older ones count less
    double firsts               # owners that were used
    double uses                 # messages that used them

cdef struct cache_t:
    uint32_t *lock              # the engine's
    device_t devices[DEVICES_MAX]
    int device_count
    uint8_t mode
    uint8_t ended               # closed, or of another process: nothing is kept or given back
    uint64_t least              # messages up to this many bytes never come here
    uint64_t bytes_max
    uint32_t entries_max
    owner_t **buckets
    uint32_t mask
    uint32_t owners
    uint32_t sweep_at           # owners at which those without a mapping are forgotten
    owner_t *ranges
    owner_t *owner_free
    mapping_t *mapping_free
    void **slabs
    uint32_t slab_count
    mapping_t *newest
    mapping_t *oldest
    uint64_t bytes              # of mappings that may be evicted
    uint32_t entries
    uint64_t range_bytes
    history_t histories[HISTORIES]
    uint64_t hits
    uint64_t misses
    uint64_t evictions
    uint64_t ends               # owners that ended, moved or were released with mappings
    uint64_t unkept             # found no room here, though they might have been kept

# call.  Registered memory at device number `device` that holds [address, address+length) with
# these rights, in use until cache_give; NULL: it is not kept here, register it for this use alone.
cdef mapping_t *cache_take(cache_t *c, owner_t *owner, int device, void *address, uint64_t length,
                           int access) noexcept nogil
# step.  Would cache_take find this?  Changes nothing.
cdef bint cache_holds(const cache_t *c, const owner_t *owner, int device, const void *address,
                      uint64_t length, int access) noexcept nogil
# step.  How many messages a registration with these rights, made now, will probably serve, this one
# included; 1 where it is not kept.
cdef double cache_uses(const cache_t *c, const owner_t *owner, int device,
                       int access) noexcept nogil
# step.  Note a message from or into memory of `owner`, or NULL.
cdef void cache_used(cache_t *c, owner_t *owner) noexcept nogil
# step.
cdef void cache_give(cache_t *c, mapping_t *mapping) noexcept nogil
# step.  `owner` stays a valid pointer until as many cache_unname.  NULL is allowed.
cdef void cache_name(owner_t *owner) noexcept nogil
cdef void cache_unname(cache_t *c, owner_t *owner) noexcept nogil
# call.  Give back unused memory, the longest unused first, at least `length` bytes; False: none
# is left.
cdef bint cache_shed(cache_t *c, uint64_t length) noexcept nogil
# call.  Give back all that is not in use.
cdef void cache_idle(cache_t *c) noexcept nogil
# call.  A range: memory that lives until range_end and is registered as a whole, or NULL.
cdef owner_t *range_new(cache_t *c, void *address, uint64_t length) noexcept nogil
# call.  Register all of it where that is worth keeping, before a message needs it; False: some
# device has no room for it.
cdef bint range_prepare(cache_t *c, owner_t *owner) noexcept nogil
cdef void range_end(cache_t *c, owner_t *owner) noexcept nogil
# The range that holds these bytes, or NULL.
cdef owner_t *range_find(const cache_t *c, const void *address, uint64_t length) noexcept nogil

# For ``registration``.  call.  Structures (C5); what nobody uses any more is used again.
cdef owner_t *owner_new(cache_t *c) noexcept nogil
cdef void owner_recycle(cache_t *c, owner_t *o) noexcept nogil
# call.  Give back all mappings of an owner, and have the devices forget them; whether it had any.
cdef bint owner_clear(cache_t *c, owner_t *o) noexcept nogil
