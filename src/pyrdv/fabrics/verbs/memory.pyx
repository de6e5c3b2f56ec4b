# cython: language_level=3
"""Registered memory of a verbs fabric.

M1  A key is the device's remote key in its upper half and an index into
    ``regions`` in its lower half.  The peer uses the first, a post here the
    second, so that a work request with a wrong local address is refused (R8
    turned inwards) instead of breaking the connection.
M2  Deregistering is a system call that frees memory, which a step may not do
    (R1).  A step puts the region on a list.  `maintain` and `flush` empty it, and so
    does the next registration if it finds much on it, anything that the peer could still
    write into, or no memory.  Little is left there: an answer does not wait for
    what the question has used.  Until then the pages stay pinned and the peer
    could still read them.
M3  A local sink is registered for remote writes too: on iWARP the data of a
    READ arrives as one (V4).  A source asks for no right to write, so that
    read-only memory can be sent.
M4  One buffer sent to many peers, or many times at once, is registered once: an
    operation whose memory and rights are exactly those of the region registered
    last shares that while it is in use.  This needs no knowledge of who owns the
    memory: every user keeps it alive until he gives the region back, so as long
    as there is one it is the same memory.  A region of no users is never taken up
    again.  One that a peer may write into is not shared: the peer of the first
    operation could write into the second.
"""
from libc.errno cimport EINVAL, ENOMEM, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc

from pyrdv.fabrics.contract cimport (
    ACCESS_KEPT, ACCESS_LOCAL, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, FABRIC_FAILED,
    FABRIC_INVALID, FABRIC_OK, fabric_t, region)
from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, ibv_mr)
from pyrdv.fabrics.verbs.state cimport memory_t, verbs_t


cdef enum:
    DEAD_BYTES = 1 << 24        # on the list that are much (M2)
    DEAD_EACH = 1 << 20         # what a region counts at least
    KEPT = 1 << 30              # in `rights` of an entry: not to be shared


cdef int rights(int access, bint iwarp) noexcept nogil:
    """The device's access flags for those of the contract (M3, V4)."""
    cdef int flags = 0
    if access & ACCESS_LOCAL:
        flags |= IBV_ACCESS_LOCAL_WRITE
        if iwarp:
            flags |= IBV_ACCESS_REMOTE_WRITE
    if access & ACCESS_REMOTE_READ:
        flags |= IBV_ACCESS_REMOTE_READ
    if access & ACCESS_REMOTE_WRITE:
        # The verbs demand the local right with the remote one.
        flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE
    return flags


def device_rights(access, iwarp):
    """Flags of ``ibv_access_flags`` with which memory is registered.

    Parameters
    ----------
    access : int
        Access flags of the contract.
    iwarp : bool
        Whether the device is an iWARP one.
    """
    return rights(access, iwarp)


cdef bint grow(verbs_t *f) noexcept nogil:
    cdef uint32_t room = f.region_room * 2 + 64
    cdef memory_t *wider = <memory_t *> realloc(f.regions, room * sizeof(memory_t))
    cdef uint32_t i
    if wider == NULL:
        return False
    for i in range(f.region_room, room):
        wider[i].mr = NULL
        wider[i].users = 0
        wider[i].next = f.region_free
        f.region_free = i + 1
    f.regions = wider
    f.region_room = room
    return True


cdef void hand_out(verbs_t *f, uint32_t index, region *out) noexcept nogil:
    cdef memory_t *entry = &f.regions[index]
    entry.users += 1
    out.key = <uint64_t> entry.mr.rkey << 32 | index
    out.address = entry.mr.addr
    out.length = entry.mr.length


cdef bint share(verbs_t *f, void *address, uint64_t length, int flags, region *out) noexcept nogil:
    """Hand out the region registered last, if it is just this memory and in use (M4)."""
    cdef memory_t *last
    if f.region_room == 0 or flags & IBV_ACCESS_REMOTE_WRITE:
        return False
    last = &f.regions[f.region_last]
    if (last.users == 0 or last.rights != flags or last.mr.addr != address
            or last.mr.length != length):
        return False
    hand_out(f, f.region_last, out)
    f.counters.shared_regions += 1
    return True


cdef int verbs_register(fabric_t *self, void *address, uint64_t length, int access,
                        region *out) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef ibv_mr *mr
    cdef memory_t *entry
    cdef uint32_t index
    cdef int flags = rights(access, f.iwarp)
    if f.dead_bytes >= DEAD_BYTES:
        memory_flush(f)
    if f.pd == NULL or length == 0 or address == NULL:
        return FABRIC_INVALID
    if not access & ACCESS_KEPT and share(f, address, length, flags, out):
        return FABRIC_OK
    if f.region_free == 0 and not grow(f):
        self.error = ENOMEM
        return FABRIC_FAILED
    mr = f.lib.ibv_reg_mr(f.pd, address, length, flags)
    if mr == NULL and memory_flush(f):
        mr = f.lib.ibv_reg_mr(f.pd, address, length, flags)
    if mr == NULL:
        self.error = errno
        # A bad address is the caller's fault, everything else the system's.
        return FABRIC_INVALID if errno == EINVAL else FABRIC_FAILED
    f.counters.registrations += 1
    index = f.region_free - 1
    entry = &f.regions[index]
    f.region_free = entry.next
    entry.mr = mr
    entry.rights = flags | KEPT if access & ACCESS_KEPT else flags
    f.region_last = index
    hand_out(f, index, out)
    return FABRIC_OK


cdef inline uint64_t dead_weight(const memory_t *entry) noexcept nogil:
    if entry.rights & IBV_ACCESS_REMOTE_WRITE:
        return DEAD_BYTES
    return entry.mr.length if entry.mr.length > DEAD_EACH else DEAD_EACH


cdef void verbs_deregister(fabric_t *self, region *which) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef uint32_t index = <uint32_t> which.key
    if index >= f.region_room or f.regions[index].users == 0:
        return
    f.regions[index].users -= 1
    if f.regions[index].users == 0:
        f.regions[index].next = f.region_dead
        f.region_dead = index + 1
        f.dead_bytes += dead_weight(&f.regions[index])
    which.key = 0
    which.length = 0


cdef void verbs_flush(fabric_t *self) noexcept nogil:
    memory_flush(<verbs_t *> self)


cdef int memory_flush(verbs_t *f) noexcept nogil:
    cdef int count = 0
    cdef memory_t *entry
    cdef uint32_t index
    while f.region_dead:
        index = f.region_dead - 1
        entry = &f.regions[index]
        f.region_dead = entry.next
        f.lib.ibv_dereg_mr(entry.mr)
        f.counters.deregistrations += 1
        entry.mr = NULL
        entry.next = f.region_free
        f.region_free = index + 1
        count += 1
    f.dead_bytes = 0
    return count


cdef void memory_close(verbs_t *f) noexcept nogil:
    cdef uint32_t i
    memory_flush(f)
    for i in range(f.region_room):
        if f.regions[i].users:
            f.lib.ibv_dereg_mr(f.regions[i].mr)
            f.counters.deregistrations += 1
    free(f.regions)
    f.regions = NULL
    f.region_room = 0
    f.region_free = 0


cdef bint memory_lkey(const verbs_t *f, uint64_t key, const void *address, uint64_t length,
                      uint32_t *lkey) noexcept nogil:
    cdef uint32_t index = <uint32_t> key
    cdef const ibv_mr *mr
    cdef uint64_t offset
    if index >= f.region_room or f.regions[index].users == 0:
        return False
    mr = f.regions[index].mr
    offset = <uint64_t> address - <uint64_t> mr.addr
    if offset > mr.length or length > mr.length - offset:
        return False
    lkey[0] = mr.lkey
    return True
