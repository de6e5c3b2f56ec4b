# cython: language_level=3
"""What the system refused to this end, and what a peer said last.

R1  A refusal is remembered by the call and its errno, and put into words when somebody asks.
R2  What was refused is tried again: a connection by the next connect, one that waits at a door or
    whose hello was seen by each maintain.  Nothing of the peer's is lost meanwhile: it waits in a
    queue of the kernel, or in the ring.
R3  A rank that ends with an error says so to its peers, in one message over each channel's socket:
    longer than a doorbell, at most WORDS bytes.  A peer's words are text for people, nothing else.
"""
from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport LACK_ACCEPT, LACK_CONNECT, lack_begins, lack_ends
from pyrdv.fabrics.shm.channel cimport peer_t, shm_t

from pyrdv.shortage import explain


cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT, MSG_NOSIGNAL
    ssize_t recv(int fd, void *data, size_t length, int flags)
    ssize_t send(int fd, const void *data, size_t length, int flags)


cdef enum:
    WORDS = 480
    MESSAGES = 32       # taken from a socket at a time

cdef tuple CALLS = (
    "", "socket", "connect", "accept4", "sendmsg", "recvmsg", "memfd_create", "ftruncate",
    "posix_fallocate", "fcntl(F_ADD_SEALS)", "mmap", "malloc", "epoll_ctl", "epoll_wait",
    "process_vm_readv", "process_vm_writev")


cdef void refused(shm_t *self, int call) noexcept nogil:
    self.base.error = errno
    self.call = <uint8_t> call


cdef void connect_lacks(shm_t *self, uint32_t rank) noexcept nogil:
    self.peers[rank].connect_call = self.call
    self.peers[rank].connect_error = self.base.error
    lack_begins(&self.base, rank, LACK_CONNECT)


cdef void accept_lacks(shm_t *self, uint32_t rank) noexcept nogil:
    self.peers[rank].accept_call = self.call
    self.peers[rank].accept_error = self.base.error
    if not self.base.lacks[rank] & LACK_ACCEPT:
        self.lack_news = 1
    lack_begins(&self.base, rank, LACK_ACCEPT)


cdef void doors_lack(shm_t *self, bint everything) noexcept nogil:
    cdef uint32_t rank
    self.shut_out = 1
    for rank in range(self.base.size):
        if rank == self.base.rank or self.peers[rank].gone or self.peers[rank].reported:
            continue
        if everything or self.peers[rank].into == NULL:
            accept_lacks(self, rank)
        if everything:
            connect_lacks(self, rank)


cdef void doors_free(shm_t *self) noexcept nogil:
    cdef uint32_t rank
    self.shut_out = 0
    for rank in range(self.base.size):
        if not self.peers[rank].held:
            lack_ends(&self.base, rank, LACK_ACCEPT)


cdef void words_take(shm_t *self, uint32_t rank, int fd) noexcept nogil:
    cdef uint8_t data[480]
    cdef peer_t *peer = &self.peers[rank]
    cdef ssize_t length
    cdef int _i
    if fd < 0:
        return
    for _i in range(MESSAGES):  # bounded: the rest is readable next time
        length = recv(fd, data, sizeof(data), MSG_DONTWAIT)
        if length <= 0:
            return
        if length > 1 and peer.words == NULL:
            peer.words = <uint8_t *> malloc(<size_t> length)
            if peer.words != NULL:
                memcpy(peer.words, data, <size_t> length)
                peer.words_length = <uint32_t> length


cdef words_say(shm_t *self, bytes text):
    cdef uint32_t rank
    cdef const uint8_t *data = text
    cdef size_t length = min(len(text), <size_t> WORDS)
    if length < 2:
        return
    for rank in range(self.base.size):
        if self.peers[rank].out != NULL and self.peers[rank].out.fd >= 0:
            send(self.peers[rank].out.fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)
        elif self.peers[rank].into != NULL and self.peers[rank].into.fd >= 0:
            send(self.peers[rank].into.fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)


cdef str lack_words(const shm_t *self, uint32_t rank, bint incoming):
    cdef const peer_t *peer = &self.peers[rank]
    own = self.base.rank
    if incoming:
        return (f"rank {own} cannot take the connection of rank {rank}: "
                f"{explain(CALLS[peer.accept_call], peer.accept_error)}")
    if peer.connect_call in (CALL_READV, CALL_WRITEV):
        return (f"rank {own} may not copy from and to rank {rank}, which PYRDV_SINGLE_COPY=on "
                f"demands: {explain(CALLS[peer.connect_call], peer.connect_error)}; with "
                "PYRDV_SINGLE_COPY=auto it uses shared memory instead")
    return (f"rank {own} cannot connect to rank {rank}: "
            f"{explain(CALLS[peer.connect_call], peer.connect_error)}")


cdef str last_words(const shm_t *self, uint32_t rank):
    cdef const peer_t *peer = &self.peers[rank]
    if peer.words == NULL:
        return ""
    text = (<const char *> peer.words)[:peer.words_length].decode("utf-8", "replace")
    # It comes from outside: it must not write lines or colours of its own.
    return "".join(c if c.isprintable() else "?" for c in text)
