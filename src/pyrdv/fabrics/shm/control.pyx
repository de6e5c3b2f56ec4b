# cython: language_level=3
"""Connections, ends of peers, sleeping, registration.

C1  A channel is opened by its sender alone; the two directions know nothing
    of each other, so simultaneous connects need no tie-break.
C2  A peer's end is noticed at a socket: a hang-up, or a byte after which a
    goodbye flag is found.  Whatever the peer connected and sent before waits
    in the listening socket or in a ring by then.  So maintain empties the
    listening socket after it noticed an end, then confirms it, and poll
    reports it after the ring is empty (F7).
C3  wake_fd is an epoll descriptor over the listening socket and all channel
    sockets; everything that is not found in memory by arm comes as a byte, a
    connection or a hang-up (F8; S3 in channel.pxd).
"""
from libc.errno cimport EAGAIN, ECONNABORTED, EHOSTUNREACH, EINTR, EINVAL, ENOMEM, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, FABRIC_AGAIN, FABRIC_FAILED,
    FABRIC_INVALID, FABRIC_LOST, FABRIC_OK, fabric_t, region)
from pyrdv.fabrics.shm.channel cimport (
    PENDING, announce_then_look, end_peer, entry_t, inbound_t, note32,
    observe32, outbound_t, peer_t, publish32, refresh_room, ring_doorbell, shm_t)
from pyrdv.fabrics.shm.datapath cimport datapath_ready
from pyrdv.fabrics.shm.segment cimport (
    address_t, free_inbound, free_outbound, open_inbound, open_outbound)


cdef extern from "<sys/socket.h>" nogil:
    int SOCK_CLOEXEC, SOCK_NONBLOCK, MSG_DONTWAIT
    struct sockaddr:
        pass
    int accept4(int fd, sockaddr *address, unsigned int *length, int flags)
    ssize_t recv(int fd, void *data, size_t length, int flags)

cdef extern from "<sys/epoll.h>" nogil:
    enum:
        EPOLLIN
        EPOLLERR
        EPOLLHUP
        EPOLLRDHUP
    int EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int limit, int timeout)

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *out)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)


cdef enum watched:
    # What an epoll event is about: kind << 32 | rank.
    WATCH_LISTENER = 0
    WATCH_UNKNOWN = 1
    WATCH_OUT = 2
    WATCH_INTO = 3

cdef enum:
    EVENTS = 32
    ACCEPTS = 64        # per maintain, unless an end must be confirmed
    GRACE_S = 5         # for a connection without a hello


cdef int64_t now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1000000000 + t.tv_nsec


cdef int watch(shm_t *self, int fd, uint64_t kind, uint32_t rank) noexcept nogil:
    cdef epoll_event event
    event.events = EPOLLIN | EPOLLRDHUP
    event.data.u64 = kind << 32 | rank
    return epoll_ctl(self.base.wake_fd, EPOLL_CTL_ADD, fd, &event)


cdef void unwatch(shm_t *self, int fd) noexcept nogil:
    # Also where the description lives on in a forked child.
    if fd >= 0:
        epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, fd, NULL)
        close(fd)


cdef int control_open(shm_t *self) noexcept nogil:
    self.base.wake_fd = epoll_create1(EPOLL_CLOEXEC)
    if self.base.wake_fd < 0:
        return -1
    return watch(self, self.listen_fd, WATCH_LISTENER, 0)


cdef void control_close(shm_t *self) noexcept nogil:
    cdef uint32_t i
    cdef peer_t *peer
    for i in range(self.base.size):
        peer = &self.peers[i]
        if peer.out != NULL:
            if peer.out.fd >= 0:
                close(peer.out.fd)
            free_outbound(peer.out)
            peer.out = NULL
        if peer.into != NULL:
            if peer.into.fd >= 0:
                close(peer.into.fd)
            free_inbound(peer.into)
            peer.into = NULL
    for i in range(self.unknown_count):
        close(self.unknown[i].fd)
    self.unknown_count = 0
    self.inbound_count = 0
    self.busy_count = 0
    self.ending_count = 0
    if self.listen_fd >= 0:
        close(self.listen_fd)
    if self.base.wake_fd >= 0:
        close(self.base.wake_fd)
    self.listen_fd = -1
    self.base.wake_fd = -1


cdef int shm_connect(fabric_t *base, uint32_t peer) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef peer_t *state
    cdef int status = FABRIC_FAILED
    if peer >= base.size or peer == base.rank or self.peers[peer].closing:
        base.error = EINVAL
        return FABRIC_FAILED
    state = &self.peers[peer]
    if state.gone or state.reported:
        return FABRIC_LOST
    if state.out != NULL:
        return FABRIC_OK
    if state.address == NULL:
        base.error = EHOSTUNREACH
        return FABRIC_FAILED
    state.out = open_outbound(self, peer, <address_t *> state.address, &status)
    if state.out == NULL:
        return status
    if watch(self, state.out.fd, WATCH_OUT, peer):
        base.error = errno
        close(state.out.fd)
        free_outbound(state.out)
        state.out = NULL
        return FABRIC_FAILED
    return FABRIC_OK


cdef void say_goodbye(shm_t *self, peer_t *peer) noexcept nogil:
    # Once everything posted is in the ring.  The bytes make the peer look.
    if peer.out != NULL and not peer.gone:
        if peer.out.first != NULL:
            self.attention = 1
            return
        if not peer.out.bye:
            peer.out.bye = 1
            publish32(&peer.out.segment.producer_bye, 1)
            ring_doorbell(self, peer.out.fd)
    if peer.into != NULL and peer.into.fd >= 0:
        publish32(&peer.into.segment.consumer_bye, 1)
        ring_doorbell(self, peer.into.fd)


cdef void shm_disconnect(fabric_t *base, uint32_t peer) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    if peer >= base.size or self.peers[peer].closing:
        return
    accept_all(self, ACCEPTS)
    self.peers[peer].closing = 1
    say_goodbye(self, &self.peers[peer])


cdef bint greet(shm_t *self, int fd) noexcept nogil:
    # Try to take the hello on `fd`; False: not there yet.
    cdef uint32_t rank = 0
    cdef int status = FABRIC_INVALID
    cdef peer_t *peer
    cdef inbound_t *into = open_inbound(self, fd, &rank, &status)
    if into == NULL:
        if status == FABRIC_AGAIN:
            return False
        self.counters.refused += 1
        unwatch(self, fd)
        return True
    peer = &self.peers[rank]
    epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, fd, NULL)
    if peer.reported or rank == self.base.rank or watch(self, fd, WATCH_INTO, rank):
        self.counters.refused += 1
        close(fd)
        free_inbound(into)
        return True
    peer.into = into
    into.listed = 1
    self.inbound[self.inbound_count] = into
    self.inbound_rank[self.inbound_count] = rank
    self.inbound_count += 1
    if peer.closing:
        say_goodbye(self, peer)
    return True


cdef void drop_unknown(shm_t *self, uint32_t i) noexcept nogil:
    # Order is kept: the oldest is first.
    self.unknown_count -= 1
    while i < self.unknown_count:
        self.unknown[i] = self.unknown[i + 1]
        i += 1


cdef int accept_all(shm_t *self, int limit) noexcept nogil:
    # Accept and greet up to `limit` connections; how many.
    cdef int fd, count = 0
    while count < limit:
        fd = accept4(self.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
        if fd < 0:
            if errno == EINTR or errno == ECONNABORTED:
                continue
            if errno != EAGAIN:
                self.base.error = errno
                self.counters.accept_errors += 1
                if not self.deaf:
                    # Out of descriptors: it would be readable for ever.
                    self.deaf = 1
                    epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, self.listen_fd, NULL)
            return count
        count += 1
        if self.deaf and watch(self, self.listen_fd, WATCH_LISTENER, 0) == 0:
            self.deaf = 0
        if greet(self, fd):
            continue
        if self.unknown_count == PENDING:
            self.counters.refused += 1
            unwatch(self, self.unknown[0].fd)
            drop_unknown(self, 0)
        self.unknown[self.unknown_count].fd = fd
        self.unknown[self.unknown_count].since = now_ns()
        self.unknown_count += 1
        watch(self, fd, WATCH_UNKNOWN, 0)
    return count


cdef int greet_unknown(shm_t *self) noexcept nogil:
    # Look at connections whose hello was late, drop those past their time.
    cdef uint32_t i = 0
    cdef int count = 0
    cdef int64_t limit = now_ns() - <int64_t> GRACE_S * 1000000000
    while i < self.unknown_count:
        if greet(self, self.unknown[i].fd):
            count += 1
            drop_unknown(self, i)
        elif self.unknown[i].since < limit:
            self.counters.refused += 1
            unwatch(self, self.unknown[i].fd)
            drop_unknown(self, i)
        else:
            i += 1
    return count


cdef void hang_up(shm_t *self, uint32_t rank) noexcept nogil:
    # The peer's process or fabric is gone, or it broke the protocol.
    cdef peer_t *peer = &self.peers[rank]
    peer.gone = 1
    if peer.out != NULL:
        unwatch(self, peer.out.fd)
        peer.out.fd = -1
    if peer.into != NULL:
        unwatch(self, peer.into.fd)
        peer.into.fd = -1
    if not peer.reported:
        end_peer(self, rank)


cdef void heed(shm_t *self, uint32_t rank, int fd, uint32_t events) noexcept nogil:
    # Something came on a channel's socket.
    cdef uint8_t byte[64]
    cdef peer_t *peer = &self.peers[rank]
    cdef int _i
    if fd < 0:
        return
    if events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR):
        hang_up(self, rank)
        return
    for _i in range(EVENTS):  # bounded: the rest is readable next time
        if recv(fd, byte, sizeof(byte), MSG_DONTWAIT) < 0:
            break
    if peer.reported:
        return
    if ((peer.into != NULL and observe32(&peer.into.segment.producer_bye))
            or (peer.out != NULL and observe32(&peer.out.segment.consumer_bye))):
        end_peer(self, rank)


cdef void confirm_ends(shm_t *self) noexcept nogil:
    # C2: what the peers had connected before their end is taken now.
    cdef uint32_t i
    if accept_all(self, 4 * ACCEPTS) == 4 * ACCEPTS:
        return  # the queue may hold more
    greet_unknown(self)
    for i in range(self.ending_count):
        self.peers[self.ending[i]].confirmed = 1
    self.unconfirmed = 0


cdef void attend(shm_t *self) noexcept nogil:
    cdef uint32_t i
    self.attention = 0
    for i in range(self.base.size):
        if self.peers[i].broken and not (
                (self.peers[i].out == NULL or self.peers[i].out.fd < 0)
                and (self.peers[i].into == NULL or self.peers[i].into.fd < 0)):
            hang_up(self, i)
        elif self.peers[i].closing:
            if self.peers[i].out != NULL and not self.peers[i].out.bye:
                say_goodbye(self, &self.peers[i])


cdef int shm_maintain(fabric_t *base) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef epoll_event events[32]
    cdef uint32_t rank
    cdef uint64_t kind
    cdef int i, happened = 0
    cdef int count = epoll_wait(base.wake_fd, events, EVENTS, 0)
    for i in range(count):
        kind = events[i].data.u64 >> 32
        rank = <uint32_t> events[i].data.u64
        if kind == WATCH_LISTENER:
            happened += accept_all(self, ACCEPTS)
        elif kind == WATCH_OUT:
            happened += 1
            if self.peers[rank].out != NULL:
                heed(self, rank, self.peers[rank].out.fd, events[i].events)
        elif kind == WATCH_INTO:
            happened += 1
            if self.peers[rank].into != NULL:
                heed(self, rank, self.peers[rank].into.fd, events[i].events)
    if self.deaf:
        happened += accept_all(self, ACCEPTS)
    if self.unknown_count:
        happened += greet_unknown(self)
    if self.unconfirmed:
        confirm_ends(self)
    if self.attention:
        attend(self)
    return happened


cdef bint room_came(outbound_t *out) noexcept nogil:
    # A post was refused for want of room and now there is more: said once.
    cdef uint32_t freed = out.freed, bulk_freed = out.bulk_freed
    if not out.starved:
        return False
    if refresh_room(out) == FABRIC_OK and freed == out.freed and bulk_freed == out.bulk_freed:
        return False
    out.starved = 0
    return True


cdef void set_waiting(shm_t *self, uint32_t value) noexcept nogil:
    # S3.  Partners: wake_consumer, wake_producer.
    cdef uint32_t i
    cdef outbound_t *out
    for i in range(self.inbound_count):
        note32(&self.inbound[i].segment.consumer_waiting, value)
    for i in range(self.base.size):
        out = self.peers[i].out
        if out != NULL and (out.starved or out.first != NULL or value == 0):
            note32(&out.segment.producer_waiting, value)
    if value:
        announce_then_look()


cdef int shm_arm(fabric_t *base) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef uint32_t i
    cdef bint ready
    # Handle what the sockets hold before, so that old bytes do not wake.
    shm_maintain(base)
    set_waiting(self, 1)
    ready = datapath_ready(self) or self.attention or self.unconfirmed
    for i in range(base.size):
        if self.peers[i].out != NULL and room_came(self.peers[i].out):
            ready = True
    if ready:
        set_waiting(self, 0)
        return FABRIC_AGAIN
    self.armed = 1
    self.counters.sleeps += 1
    return FABRIC_OK


cdef void shm_disarm(fabric_t *base) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    self.armed = 0
    set_waiting(self, 0)
    shm_maintain(base)


cdef int shm_register(fabric_t *base, void *address, uint64_t length, int access,
                      region *out) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef entry_t *grown
    cdef uint32_t i, count, index
    if not access & (ACCESS_LOCAL | ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE):
        return FABRIC_INVALID
    if <uint64_t> address + length < length:
        return FABRIC_INVALID
    if self.region_free == 0:
        count = self.region_count * 2 if self.region_count else 64
        grown = <entry_t *> realloc(self.regions, count * sizeof(entry_t))
        if grown == NULL:
            base.error = ENOMEM
            return FABRIC_FAILED
        memset(&grown[self.region_count], 0, (count - self.region_count) * sizeof(entry_t))
        self.regions = grown
        for i in range(count, self.region_count, -1):
            grown[i - 1].next_free = self.region_free
            self.region_free = i
        self.region_count = count
    index = self.region_free - 1
    self.region_free = self.regions[index].next_free
    self.regions[index].address = <uint64_t> address
    self.regions[index].length = length
    self.regions[index].access = <uint32_t> access
    out.key = <uint64_t> self.regions[index].generation << 32 | index
    out.address = address
    out.length = length
    return FABRIC_OK


cdef void shm_deregister(fabric_t *base, region *which) noexcept nogil:
    # A key that is not valid, or no longer, is no harm.
    cdef shm_t *self = <shm_t *> base
    cdef uint32_t index = <uint32_t> which.key
    if index >= self.region_count or self.regions[index].access == 0:
        return
    if self.regions[index].generation != which.key >> 32:
        return
    self.regions[index].access = 0
    self.regions[index].generation += 1
    self.regions[index].next_free = self.region_free
    self.region_free = index + 1
