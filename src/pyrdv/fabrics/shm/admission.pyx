# cython: language_level=3
"""Admission: from a connection at a door to a channel, while strangers knock.

A1  Who it is, is looked at first: a connection of another user is closed as soon as it
    is accepted.  It takes no place anywhere.
A2  A hello that is there is taken at once, so a connection takes a place only between
    its connect() and its hello.  Each rank has a place of its own, found by the process id
    that the kernel gives; all other processes of the user share PENDING places, of which
    the oldest is given up for the next.  So nobody takes the place of a rank.
A3  A connection is given up in a way that both sides agree on: it is shut for receiving
    first and then read once more.  Either the hello was in time and is taken, or its
    sender gets EPIPE, knows that it was not, and connects again.
A4  Strangers cost a bounded time: after STRANGERS connections that became no channel, each
    within a WINDOW of the one before, the doors are left alone for a WINDOW.  The same if
    the system has no descriptor to accept with.  A timer wakes the sleeper up then (F8).
A5  What a peer connected before its end was noticed stands among the first DEPTH in the
    queue, for the queue holds no more.  So the end of a peer without a channel to here is
    confirmed after DEPTH connections, however many strangers follow, and that of a peer
    with one at once, for a rank opens only one.
"""
from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.fabrics.contract cimport (
    FABRIC_AGAIN, FABRIC_FAILED, FABRIC_INVALID, LACK_ACCEPT, lack_ends)
from pyrdv.fabrics.shm.channel cimport (
    PENDING, inbound_t, peer_t, pending_t, publish32, ring_doorbell, shm_t)
from pyrdv.fabrics.shm.channels cimport channel_list
from pyrdv.fabrics.shm.doors cimport address_t, credentials, credentials_t
from pyrdv.fabrics.shm.lacks cimport (
    CALL_ACCEPT, accept_lacks, doors_free, doors_lack, refused)
from pyrdv.fabrics.shm.segment cimport free_inbound, open_inbound


cdef extern from "<sys/socket.h>" nogil:
    int SOCK_CLOEXEC, SOCK_NONBLOCK, SHUT_RD
    struct sockaddr:
        pass
    int accept4(int fd, sockaddr *address, unsigned int *length, int flags)
    int shutdown(int fd, int how)

cdef extern from "<sys/epoll.h>" nogil:
    enum:
        EPOLLIN
        EPOLLRDHUP
    int EPOLL_CTL_ADD, EPOLL_CTL_DEL
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)

cdef extern from "<sys/timerfd.h>" nogil:
    int TFD_CLOEXEC, TFD_NONBLOCK
    struct timespec:
        long tv_sec
        long tv_nsec
    struct itimerspec:
        timespec it_interval
        timespec it_value
    int timerfd_create(int clock, int flags)
    int timerfd_settime(int fd, int flags, const itimerspec *new, itimerspec *old)

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    short POLLIN
    int poll(pollfd *fds, unsigned long count, int timeout)

cdef extern from "<time.h>" nogil:
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *out)

cdef extern from "signals.h" nogil:
    int descriptor_signals(int fd, int thread, int signal)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)
    ssize_t read(int fd, void *data, size_t length)


cdef enum:
    BATCH = 64                  # connections per door and call
    DEPTH = 4100                # more than a queue can hold: doors.BACKLOG, and one
    STRANGERS = 32              # per WINDOW, about 3 % of a processor
    WINDOW_NS = 4_000_000
    AGAIN_NS = 1_000_000        # until a connect that found a full queue is tried again
    GRACE_S = 5                 # for a connection without a hello

cdef enum greeting:
    GREET_LATER = 0             # no hello yet
    GREET_TAKEN = 1
    GREET_REFUSED = 2


cdef int64_t now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1000000000 + t.tv_nsec


cdef int watch(shm_t *self, int fd, uint64_t kind, uint32_t rank) noexcept nogil:
    cdef epoll_event event
    event.events = EPOLLIN | EPOLLRDHUP
    event.data.u64 = kind << 32 | rank
    if self.signal_thread and (kind == WATCH_INTO or kind == WATCH_OUT):
        descriptor_signals(fd, self.signal_thread, self.signal)
    return epoll_ctl(self.base.wake_fd, EPOLL_CTL_ADD, fd, &event)


cdef void unwatch(shm_t *self, int fd) noexcept nogil:
    if fd >= 0:
        epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, fd, NULL)
        close(fd)


# The doors ------------------------------------------------------------------

cdef int watch_doors(shm_t *self) noexcept nogil:
    if self.public_fd >= 0 and watch(self, self.public_fd, WATCH_DOOR, 0):
        return -1
    if self.private_fd >= 0 and watch(self, self.private_fd, WATCH_DOOR, 0):
        return -1
    return 0


cdef int admission_open(shm_t *self) noexcept nogil:
    cdef uint32_t i
    for i in range(self.base.size):
        self.peers[i].caller.fd = -1
    return watch_doors(self)


cdef void close_public(shm_t *self) noexcept nogil:
    unwatch(self, self.public_fd)
    self.public_fd = -1


cdef void shut(int *fd) noexcept nogil:
    if fd[0] >= 0:
        close(fd[0])
    fd[0] = -1


cdef void admission_close(shm_t *self) noexcept nogil:
    cdef uint32_t i
    for i in range(self.unknown_count):
        close(self.unknown[i].fd)
    self.unknown_count = 0
    if self.caller_count:
        for i in range(self.base.size):
            shut(&self.peers[i].caller.fd)
    self.caller_count = 0
    shut(&self.public_fd)
    shut(&self.private_fd)
    shut(&self.place_fd)
    shut(&self.timer_fd)


cdef void turn_away(shm_t *self, int64_t until) noexcept nogil:
    """Leave the doors alone `until` then (A4)."""
    self.hear_at = until
    if self.deaf:
        return
    self.deaf = 1
    if self.public_fd >= 0:
        epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, self.public_fd, NULL)
    if self.private_fd >= 0:
        epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, self.private_fd, NULL)


cdef void count_stranger(shm_t *self) noexcept nogil:
    cdef int64_t now = now_ns()
    if now - self.stranger_at >= WINDOW_NS:
        self.strangers = 0
    self.stranger_at = now
    self.strangers += 1
    if self.strangers >= STRANGERS:
        self.strangers = 0
        turn_away(self, now + WINDOW_NS)


# Hellos ---------------------------------------------------------------------

cdef void let_go(shm_t *self, const pending_t *place) noexcept nogil:
    """What was held is taken or refused."""
    if place.held:
        self.peers[place.rank].held = 0
        lack_ends(&self.base, place.rank, LACK_ACCEPT)


cdef int greet(shm_t *self, int fd, pending_t *place) noexcept nogil:
    """Try to take the hello on `fd`; a refused one is closed.  `place`: says if it is held."""
    cdef uint32_t rank = 0
    cdef int status = FABRIC_INVALID
    cdef peer_t *peer
    cdef inbound_t *into = open_inbound(self, fd, &rank, &status)
    if into == NULL:
        if status == FABRIC_AGAIN:
            return GREET_LATER
        if status == FABRIC_FAILED:
            # Looked at again by each maintain; it would be readable for ever.
            accept_lacks(self, rank)
            epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, fd, NULL)
            place.held = 1
            place.rank = rank
            self.peers[rank].held = 1
            return GREET_LATER
        self.counters.refused += 1
        unwatch(self, fd)
        return GREET_REFUSED
    peer = &self.peers[rank]
    epoll_ctl(self.base.wake_fd, EPOLL_CTL_DEL, fd, NULL)
    if peer.reported or rank == self.base.rank or watch(self, fd, WATCH_INTO, rank):
        self.counters.refused += 1
        close(fd)
        free_inbound(into)
        return GREET_REFUSED
    peer.into = into
    lack_ends(&self.base, rank, LACK_ACCEPT)
    channel_list(self, into, rank)
    if peer.closing:
        publish32(&into.segment.consumer_bye, 1)
        ring_doorbell(self, fd)
    return GREET_TAKEN


cdef int give_up(shm_t *self, pending_t *place) noexcept nogil:
    """Close a connection without a hello, unless that comes at this moment (A3)."""
    shutdown(place.fd, SHUT_RD)
    return greet(self, place.fd, place)


cdef void drop_unknown(shm_t *self, uint32_t i) noexcept nogil:
    # Order is kept: the oldest is first.
    self.unknown_count -= 1
    while i < self.unknown_count:
        self.unknown[i] = self.unknown[i + 1]
        i += 1


cdef pending_t *place_of(shm_t *self, int pid) noexcept nogil:
    """The free place of the rank that is process `pid`; NULL: there is none (A2)."""
    cdef const address_t *own = <const address_t *> self.peers[self.base.rank].address
    cdef const address_t *address
    cdef uint32_t i
    for i in range(self.base.size):
        address = <const address_t *> self.peers[i].address
        if (address != NULL and address != own and <int> address.pid == pid
                and own.space != 0 and address.space == own.space and self.peers[i].into == NULL
                and self.peers[i].caller.fd < 0):
            return &self.peers[i].caller
    return NULL


cdef int make_place(shm_t *self) noexcept nogil:
    """Give the oldest connection up whose hello is not here; how many channels came of that."""
    cdef uint32_t i
    cdef int got
    for i in range(self.unknown_count):
        if not self.unknown[i].held:
            got = give_up(self, &self.unknown[i])
            if got == GREET_LATER:
                continue        # its hello came at this moment, and cannot be taken
            drop_unknown(self, i)
            return got == GREET_TAKEN
    return 0


cdef int keep(shm_t *self, const pending_t *guest, int pid) noexcept nogil:
    """Have a connection wait for its hello; how many channels came of making room."""
    cdef int came = 0
    cdef pending_t *place = place_of(self, pid)
    if place != NULL:
        self.caller_count += 1
    else:
        count_stranger(self)
        if self.unknown_count == PENDING:
            came = make_place(self)
        if self.unknown_count == PENDING:
            # All are held; that it is hung up on before its hello is taken shows it (A3).
            let_go(self, guest)
            close(guest.fd)
            return came
        place = &self.unknown[self.unknown_count]
        self.unknown_count += 1
    place[0] = guest[0]
    place.since = now_ns()
    if not place.held:
        watch(self, place.fd, WATCH_CALLER, 0)
    return came


cdef int greet_again(shm_t *self, pending_t *place, int64_t limit) noexcept nogil:
    cdef pending_t before = place[0]
    cdef int got
    if place.since < limit and not place.held:
        got = give_up(self, place)
    else:
        got = greet(self, place.fd, place)
    if got != GREET_LATER:
        let_go(self, &before)
    return got


cdef int greet_waiting(shm_t *self) noexcept nogil:
    """Look at connections whose hello was late, give up those past their time."""
    cdef uint32_t i = 0
    cdef int got, came = 0
    cdef int64_t limit = now_ns() - <int64_t> GRACE_S * 1000000000
    while i < self.unknown_count:
        got = greet_again(self, &self.unknown[i], limit)
        came += got == GREET_TAKEN
        if got == GREET_LATER:
            i += 1
        else:
            drop_unknown(self, i)
    if self.caller_count:
        for i in range(self.base.size):
            if self.peers[i].caller.fd < 0:
                continue
            got = greet_again(self, &self.peers[i].caller, limit)
            came += got == GREET_TAKEN
            if got != GREET_LATER:
                self.peers[i].caller.fd = -1
                self.caller_count -= 1
    return came


cdef bint somebody_at(int door) noexcept nogil:
    """Without a descriptor to give away the kernel does not look whether anybody is there."""
    cdef pollfd wanted
    wanted.fd = door
    wanted.events = POLLIN
    wanted.revents = 0
    return poll(&wanted, 1, 0) != 0


cdef int accept_from(shm_t *self, int door, int limit, int *came) noexcept nogil:
    """Accept up to `limit` connections, only some of strangers unless it is DEPTH; how many."""
    cdef credentials_t who
    cdef pending_t guest
    cdef int fd, got, count = 0
    while count < limit and (not self.deaf or limit == DEPTH):
        fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)
        if fd < 0:
            if errno == EINTR or errno == ECONNABORTED:
                continue
            refused(self, CALL_ACCEPT)
            if self.base.error != EAGAIN and somebody_at(door):
                # Out of descriptors: it would be readable for ever.
                self.counters.accept_errors += 1
                turn_away(self, now_ns() + WINDOW_NS)
                doors_lack(self, False)
            elif self.shut_out:
                doors_free(self)
            return count
        count += 1
        if not credentials(fd, &who) or who.uid != self.uid:
            close(fd)
            self.counters.foreign += 1
            count_stranger(self)
            continue
        guest.fd = fd
        guest.held = 0
        got = greet(self, fd, &guest)
        if got == GREET_LATER:
            came[0] += keep(self, &guest, who.pid)
        elif got == GREET_REFUSED:
            count_stranger(self)
        else:
            came[0] += 1
    return count


# What control calls ---------------------------------------------------------

cdef int admit_some(shm_t *self) noexcept nogil:
    cdef int came = 0
    # For want of a descriptor: there may be one now.
    if self.deaf and (self.shut_out or now_ns() >= self.hear_at):
        self.deaf = 0
        watch_doors(self)
        self.knocked = 1
    if self.knocked and not self.deaf:
        self.knocked = 0
        if self.private_fd >= 0:
            accept_from(self, self.private_fd, BATCH, &came)
        if self.public_fd >= 0:
            accept_from(self, self.public_fd, BATCH, &came)
    if self.unknown_count or self.caller_count:
        came += greet_waiting(self)
    return came


cdef void admit_all(shm_t *self) noexcept nogil:
    cdef int came = 0
    if self.private_fd >= 0:
        accept_from(self, self.private_fd, DEPTH, &came)
    if self.public_fd >= 0:
        accept_from(self, self.public_fd, DEPTH, &came)
    greet_waiting(self)


cdef void admission_timer(shm_t *self) noexcept nogil:
    cdef uint64_t expirations
    self.again = 0
    read(self.timer_fd, &expirations, sizeof(expirations))


cdef void admission_arm(shm_t *self) noexcept nogil:
    cdef itimerspec when
    cdef int64_t wait
    if not self.deaf and not self.again:
        return
    if self.timer_fd < 0:
        self.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)
        if self.timer_fd < 0 or watch(self, self.timer_fd, WATCH_TIMER, 0):
            # No descriptor for it: looked at whenever the sleeper wakes up.
            shut(&self.timer_fd)
            return
    wait = self.hear_at - now_ns() if self.deaf else AGAIN_NS
    if self.again and wait > AGAIN_NS:
        wait = AGAIN_NS
    memset(&when, 0, sizeof(when))
    when.it_value.tv_nsec = <long> wait if wait > 0 else 1
    timerfd_settime(self.timer_fd, 0, &when, NULL)
