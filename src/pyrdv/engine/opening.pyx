# cython: language_level=3
"""What a new engine is given: fabrics, credits, a descriptor to sleep on."""
from cpython.mem cimport PyMem_Calloc
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.calls cimport call_begin, call_end
from pyrdv.engine.matching cimport index_init
from pyrdv.engine.pools cimport pools_reserve
from pyrdv.engine.protocols.table cimport protocol_table
from pyrdv.engine.state cimport PEER_SELF, UNIT, call_t, engine_t
from pyrdv.fabrics.contract cimport CAP_POLLED, Fabric


cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)

cdef extern from "<sys/eventfd.h>" nogil:
    int EFD_CLOEXEC, EFD_NONBLOCK
    int eventfd(unsigned int initial, int flags)


cdef enum:
    ALLOWANCE_LEAST = 1 << 16   # bytes of eager credit per peer, whatever their number
    ALLOWANCE_MOST = 1 << 30


cdef int add_fabrics(engine_t *e, fabrics, routes) except -1:
    cdef int i
    cdef Fabric fabric
    for fabric in fabrics:
        if fabric.handle.rank != e.rank or fabric.handle.size != e.size:
            raise ValueError(
                f"a fabric for rank {fabric.rank} of {fabric.size} cannot serve "
                f"rank {e.rank} of {e.size}")
        e.fabrics[e.fabric_count] = fabric.handle
        e.polled |= (fabric.handle.capabilities & CAP_POLLED) != 0
        e.fabric_count += 1
    for i in range(<int> e.size):
        e.peers[i].rank = i
        if i == <int> e.rank:
            e.peers[i].state = PEER_SELF
        else:
            e.peers[i].fabric = e.fabrics[<int> routes.get(i, 0)]
    return 0


cdef int add_pools(engine_t *e) except -1:
    cdef uint32_t protocols = protocol_table().peer_bytes
    cdef uint32_t each = protocols + e.policy.peer_bytes
    cdef char *own
    cdef uint32_t i
    cdef int status
    cdef call_t *call
    if e.peers == NULL or index_init(&e.posted) or index_init(&e.unexpected):
        raise MemoryError
    own = <char *> PyMem_Calloc(e.size, each)
    if own == NULL:
        raise MemoryError
    for i in range(e.size):
        e.peers[i].own = own + <size_t> i * each
        e.peers[i].pairing = e.peers[i].own + protocols
    call = call_begin(e)
    status = pools_reserve(call)
    call_end(call)
    if status:
        raise MemoryError
    return 0


cdef void set_allowance(engine_t *e, uint64_t unexpected_max) noexcept:
    cdef uint64_t share = unexpected_max // (e.size - 1 if e.size > 1 else 1)
    share = min(max(share, <uint64_t> ALLOWANCE_LEAST), <uint64_t> ALLOWANCE_MOST)
    e.eager_units = <uint32_t> (share // UNIT)


cdef int open_wait(engine_t *e) except -1:
    cdef epoll_event event
    cdef int i
    e.local_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
    e.wait_fd = epoll_create1(EPOLL_CLOEXEC)
    if e.local_fd < 0 or e.wait_fd < 0:
        raise OSError("no file descriptor left for the engine; raise `ulimit -n`")
    memset(&event, 0, sizeof(event))
    event.events = EPOLLIN
    for i in range(e.fabric_count):
        if e.fabrics[i].wake_fd >= 0:
            epoll_ctl(e.wait_fd, EPOLL_CTL_ADD, e.fabrics[i].wake_fd, &event)
    return 0
