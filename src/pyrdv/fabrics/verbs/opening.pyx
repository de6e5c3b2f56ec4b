# cython: language_level=3
"""Opening a fabric: its descriptors, listeners, and what it takes of the device."""
from libc.errno cimport EADDRNOTAVAIL, ENODEV, ENOMEM, errno
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport strncmp

from pyrdv.fabrics.contract cimport CAP_HELD, CAP_SOFT
from pyrdv.fabrics.verbs.libibverbs cimport IBV_TRANSPORT_IWARP, ibv_device_attr
from pyrdv.fabrics.verbs.librdmacm cimport RDMA_PS_TCP, rdma_cm_id, sockaddr, sockaddr_storage
from pyrdv.fabrics.verbs.state cimport RXE_VENDOR, SIW_VENDOR, verbs_t


cdef extern from "<fcntl.h>" nogil:
    int F_GETFL, F_SETFL, O_NONBLOCK
    int fcntl(int fd, int command, ...)

cdef extern from "<sys/epoll.h>" nogil:
    enum:
        EPOLLIN
    int EPOLL_CTL_ADD, EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)

cdef extern from "<sys/timerfd.h>" nogil:
    int TFD_CLOEXEC, TFD_NONBLOCK
    int CLOCK_MONOTONIC
    int timerfd_create(int clock, int flags)

cdef extern from "<sys/eventfd.h>" nogil:
    int EFD_CLOEXEC, EFD_NONBLOCK
    int eventfd(unsigned int value, int flags)


cdef enum:
    READS_MAX = 16          # READs under way on one link, asked for
    BACKLOG = 1024          # requests that wait for us
    DEVICE_NAME = 64


cdef int unblocking(int fd) noexcept nogil:
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK)


cdef int watch(verbs_t *f, int fd) noexcept nogil:
    cdef epoll_event event
    event.events = EPOLLIN
    event.data.u64 = <uint64_t> fd
    return epoll_ctl(f.base.wake_fd, EPOLL_CTL_ADD, fd, &event)


cdef int connection_open(verbs_t *f) noexcept nogil:
    f.base.wake_fd = epoll_create1(EPOLL_CLOEXEC)
    f.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)
    f.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
    if f.base.wake_fd < 0 or f.timer_fd < 0 or f.kick_fd < 0:
        return -1
    f.events = f.lib.rdma_create_event_channel()
    if f.events == NULL or unblocking(f.events.fd):
        return -1
    return -1 if watch(f, f.events.fd) or watch(f, f.timer_fd) or watch(f, f.kick_fd) else 0


cdef int connection_listen(verbs_t *f, const char *device, sockaddr_storage *where,
                           uint16_t *port) noexcept nogil:
    cdef rdma_cm_id *ident = NULL
    cdef int kept = 0
    if f.lib.rdma_create_id(f.door, &ident, NULL, RDMA_PS_TCP):
        return -1
    if f.lib.rdma_bind_addr(ident, <sockaddr *> where):
        kept = errno if errno else EADDRNOTAVAIL
    elif ident.verbs == NULL:
        kept = EADDRNOTAVAIL
    elif strncmp(ident.verbs.device.name, device, DEVICE_NAME):
        kept = ENODEV
    elif f.lib.rdma_listen(ident, BACKLOG):
        kept = errno if errno else EADDRNOTAVAIL
    if kept:
        f.lib.rdma_destroy_id(ident)
        (&errno)[0] = kept
        return -1
    # The order of bytes in a port number is the network's.
    port[0] = f.lib.rdma_get_src_port(ident)
    ident.context = f.listener
    f.listener = ident
    f.context = ident.verbs
    return 0


cdef int connection_prepare(verbs_t *f) noexcept nogil:
    cdef ibv_device_attr attr
    f.iwarp = f.context.device.transport_type == IBV_TRANSPORT_IWARP
    if f.lib.ibv_query_device(f.context, &attr):
        (&errno)[0] = ENODEV
        return -1
    f.soft_fence = attr.vendor_id == SIW_VENDOR
    f.frail_fence = attr.vendor_id == RXE_VENDOR
    if f.soft_fence:
        f.base.capabilities |= CAP_HELD
    if f.soft_fence or f.frail_fence:
        f.base.capabilities |= CAP_SOFT
    f.reads_max = <uint32_t> max(1, min(READS_MAX, attr.max_qp_rd_atom))
    f.reads_init_max = <uint32_t> max(1, min(READS_MAX, attr.max_qp_init_rd_atom))
    (&errno)[0] = ENOMEM
    f.pd = f.lib.ibv_alloc_pd(f.context)
    if f.pd == NULL:
        return -1
    f.channel = f.lib.ibv_create_comp_channel(f.context)
    if f.channel == NULL or unblocking(f.channel.fd) or watch(f, f.channel.fd):
        return -1
    return -1 if unblocking(f.context.async_fd) or watch(f, f.context.async_fd) else 0
