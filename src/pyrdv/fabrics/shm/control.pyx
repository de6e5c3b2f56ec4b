# cython: language_level=3
"""Connections, ends of peers, sleeping, registration.

C1  A channel is opened by its sender alone; the two directions know nothing
    of each other, so simultaneous connects need no tie-break.
C2  A peer's end is noticed at a socket: a hang-up, or a byte after which a
    goodbye flag is found.  Whatever the peer connected and sent before waits
    at a door or in a ring by then.  So maintain takes what stood at the doors
    when it noticed an end (A5), then confirms it, and poll reports it after
    the ring is empty (F7).
C3  wake_fd is an epoll descriptor over the doors and all channel sockets;
    everything that is not found in memory by arm comes as a byte, a
    connection or a hang-up (F8; S3 in channel.pxd).
C4  A channel's socket signals the thread that `shm_signals` named with every byte that comes,
    drained or not.  So that the socket never fills up, which would swallow the byte, `shm_watch`
    drains those whose waiting flag was taken.  What is said in more than a byte, and a goodbye, is
    left for `heed`, and with it whatever comes behind.
"""
from libc.errno cimport EHOSTUNREACH, EINTR, EINVAL, ENOMEM, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, FABRIC_AGAIN, FABRIC_FAILED,
    FABRIC_INVALID, FABRIC_LOST, FABRIC_OK, LACK_ACCEPT, LACK_CONNECT, WATCHED, fabric_t,
    lack_ends, region)
from pyrdv.fabrics.shm.admission cimport (
    WATCH_DOOR, WATCH_INTO, WATCH_OUT, WATCH_TIMER, admission_arm, admission_close,
    admission_open, admission_timer, admit_all, admit_some, unwatch, watch)
from pyrdv.fabrics.shm.channel cimport (
    announce_then_look, end_peer, entry_t, glance32, note32, observe32, outbound_t, peer_t,
    publish32, refresh_room, ring_doorbell, shm_t, ticks_scale)
from pyrdv.fabrics.shm.datapath cimport datapath_ready
from pyrdv.fabrics.shm.doors cimport address_t, credentials_t, reach
from pyrdv.fabrics.shm.lacks cimport (
    CALL_CONNECT, CALL_EPOLL_CTL, CALL_EPOLL_WAIT, connect_lacks, doors_lack, refused, words_take)
from pyrdv.fabrics.shm.segment cimport (
    free_inbound, free_outbound, hand_over, prepare_outbound)


cdef extern from "ticks.h" nogil:
    void ticks_learn(ticks_scale *scale)

cdef extern from "<sys/epoll.h>" nogil:
    enum:
        EPOLLERR
        EPOLLHUP
        EPOLLRDHUP
    int EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_wait(int epoll, epoll_event *events, int limit, int timeout)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC
    ssize_t recv(int fd, void *data, size_t length, int flags)

cdef extern from "signals.h" nogil:
    int descriptor_signals(int fd, int thread, int signal)


cdef enum:
    EVENTS = 32
    DOORBELLS = 4       # that one watch takes from a socket; one comes per arming


cdef int control_open(shm_t *self) noexcept nogil:
    self.base.wake_fd = epoll_create1(EPOLL_CLOEXEC)
    if self.base.wake_fd < 0:
        return -1
    return admission_open(self)


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
        free_outbound(peer.ready)
        peer.ready = NULL
        if peer.into != NULL:
            if peer.into.fd >= 0:
                close(peer.into.fd)
            free_inbound(peer.into)
            peer.into = NULL
    admission_close(self)
    self.inbound_count = self.lively_count = 0
    self.busy_count = 0
    self.ending_count = 0
    if self.base.wake_fd >= 0:
        close(self.base.wake_fd)
    self.base.wake_fd = -1


cdef int open_channel(shm_t *self, uint32_t peer) noexcept nogil:
    """Prepare, connect, watch, hand over: nothing can fail between the last two (G5)."""
    cdef peer_t *state = &self.peers[peer]
    cdef const address_t *address = <const address_t *> state.address
    cdef credentials_t who
    cdef int fd, status, lacking = 0
    cdef uint8_t call = 0
    if state.ready == NULL:
        state.ready = prepare_outbound(self, peer, address)
        if state.ready == NULL:
            lacking = self.base.error
            call = self.call
    fd = reach(self, address, &who, &status)
    if state.ready == NULL:
        # Why it cannot be prepared may be that the peer has ended.
        if fd >= 0:
            close(fd)
        if status == FABRIC_LOST:
            return FABRIC_LOST
        self.base.error = lacking
        self.call = call
        return FABRIC_FAILED
    if fd < 0:
        return status
    if watch(self, fd, WATCH_OUT, peer):
        refused(self, CALL_EPOLL_CTL)
        close(fd)
        return FABRIC_FAILED
    status = hand_over(self, peer, state.ready, fd)
    if status != FABRIC_OK:
        unwatch(self, fd)
        return status
    state.out = state.ready
    state.ready = NULL
    return FABRIC_OK


cdef int shm_connect(fabric_t *base, uint32_t peer) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef peer_t *state
    cdef int status
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
        self.call = CALL_CONNECT
        connect_lacks(self, peer)
        return FABRIC_FAILED
    status = open_channel(self, peer)
    if status == FABRIC_AGAIN:
        self.again = 1
    elif status != FABRIC_OK:
        free_outbound(state.ready)
        state.ready = NULL
    if status == FABRIC_FAILED:
        connect_lacks(self, peer)
    elif base.lacking:
        lack_ends(base, peer, LACK_CONNECT)
    return status


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
    self.knocked = 1
    admit_some(self)
    self.peers[peer].closing = 1
    say_goodbye(self, &self.peers[peer])


cdef void hang_up(shm_t *self, uint32_t rank) noexcept nogil:
    # The peer's process or fabric is gone, or it broke the protocol.
    cdef peer_t *peer = &self.peers[rank]
    peer.gone = 1
    lack_ends(&self.base, rank, LACK_ACCEPT | LACK_CONNECT)
    if peer.out != NULL:
        words_take(self, rank, peer.out.fd)
        unwatch(self, peer.out.fd)
        peer.out.fd = -1
    if peer.into != NULL:
        words_take(self, rank, peer.into.fd)
        unwatch(self, peer.into.fd)
        peer.into.fd = -1
    if not peer.reported:
        end_peer(self, rank)


cdef void heed(shm_t *self, uint32_t rank, int fd, uint32_t events) noexcept nogil:
    # Something came on a channel's socket.
    cdef peer_t *peer = &self.peers[rank]
    if fd < 0:
        return
    if events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR):
        hang_up(self, rank)
        return
    words_take(self, rank, fd)
    if peer.reported:
        return
    if ((peer.into != NULL and observe32(&peer.into.segment.producer_bye))
            or (peer.out != NULL and observe32(&peer.out.segment.consumer_bye))):
        end_peer(self, rank)


cdef void confirm_ends(shm_t *self) noexcept nogil:
    # C2: what the peers had connected before their end is taken now.
    cdef uint32_t i
    for i in range(self.ending_count):
        if self.peers[self.ending[i]].into == NULL and not self.peers[self.ending[i]].confirmed:
            admit_all(self)
            break
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
    ticks_learn(&self.ticks)
    if count < 0 and errno != EINTR:
        # Closed by the program: nobody can be heard any more.
        refused(self, CALL_EPOLL_WAIT)
        doors_lack(self, True)
        return 0
    for i in range(count):
        kind = events[i].data.u64 >> 32
        rank = <uint32_t> events[i].data.u64
        if kind == WATCH_DOOR:
            self.knocked = 1
        elif kind == WATCH_TIMER:
            admission_timer(self)
        elif kind == WATCH_OUT:
            happened += 1
            if self.peers[rank].out != NULL:
                heed(self, rank, self.peers[rank].out.fd, events[i].events)
        elif kind == WATCH_INTO:
            happened += 1
            if self.peers[rank].into != NULL:
                heed(self, rank, self.peers[rank].into.fd, events[i].events)
    happened += admit_some(self)
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
    ready = datapath_ready(self) or self.attention or self.unconfirmed or self.lack_news
    self.lack_news = 0
    for i in range(base.size):
        if self.peers[i].out != NULL and room_came(self.peers[i].out):
            ready = True
    if ready:
        self.wide = 1
        set_waiting(self, 0)
        return FABRIC_AGAIN
    admission_arm(self)
    self.counters.sleeps += 1
    return FABRIC_OK


cdef void shm_disarm(fabric_t *base) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    set_waiting(self, 0)
    shm_maintain(base)


cdef void drain_doorbells(int fd) noexcept nogil:
    cdef uint8_t data
    cdef int _i
    for _i in range(DOORBELLS):
        if recv(fd, &data, 1, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC) != 1:
            return
        recv(fd, &data, 1, MSG_DONTWAIT)


cdef void take_doorbells(const peer_t *peer) noexcept nogil:
    """C4.  The flag is taken before the byte comes: one may be left for the next time."""
    if peer.into != NULL and peer.into.fd >= 0 \
            and not glance32(&peer.into.segment.consumer_waiting) \
            and not observe32(&peer.into.segment.producer_bye):
        drain_doorbells(peer.into.fd)
    if peer.out != NULL and peer.out.fd >= 0 and (peer.out.starved or peer.out.first != NULL) \
            and not glance32(&peer.out.segment.producer_waiting) \
            and not observe32(&peer.out.segment.consumer_bye):
        drain_doorbells(peer.out.fd)


cdef int64_t shm_watch(fabric_t *base) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef uint32_t i
    cdef bint ready
    for i in range(base.size):
        take_doorbells(&self.peers[i])
    set_waiting(self, 1)
    ready = datapath_ready(self)
    for i in range(base.size):
        if self.peers[i].out != NULL and room_came(self.peers[i].out):
            ready = True
    return 0 if ready else WATCHED


cdef int shm_signals(fabric_t *base, int thread, int signal) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef uint32_t i
    cdef const peer_t *peer
    cdef int status = FABRIC_OK
    self.signal_thread = thread
    self.signal = signal
    for i in range(base.size):
        peer = &self.peers[i]
        if peer.out != NULL and peer.out.fd >= 0 \
                and descriptor_signals(peer.out.fd, thread, signal):
            status = FABRIC_INVALID
        if peer.into != NULL and peer.into.fd >= 0 \
                and descriptor_signals(peer.into.fd, thread, signal):
            status = FABRIC_INVALID
    return status


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
