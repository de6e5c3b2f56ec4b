# cython: language_level=3
"""The shared memory of a channel: made by its producer, taken by its consumer.

G1  The memory has no name: it is a memfd that travels with the hello, so
    nothing is left behind whoever dies, and /dev/shm is not involved.
G2  No access to it can raise SIGBUS: its pages are allocated before it is
    handed over, and it is sealed against changes of its size.  A consumer
    refuses memory without these seals or of another size.
G3  The producer may use the channel at once: connect() to a listening socket
    succeeds without the other side's CPU, and hello and memory wait in its queue.
G4  A hello is taken only from a process of the same user (SO_PEERCRED, checked
    on both sides) that knows the job's digest.
G5  All that may fail for want of memory or descriptors is done before the peer
    is connected to.  So the hello follows the connection at once, and can be
    sent again: EPIPE says that the peer hung up before a hello had come, which
    is no sign of its end (A3 in admission.pyx).
G6  A hello is looked at where it lies and removed when it was taken.  So what
    this process cannot take for want of descriptors or memory stays there.
"""
from libc.errno cimport EAGAIN, ECONNRESET, EINTR, EPIPE, errno
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from pyrdv.fabrics.contract cimport (
    FABRIC_AGAIN, FABRIC_FAILED, FABRIC_INVALID, FABRIC_OK)
from pyrdv.fabrics.shm.channel cimport (
    MAY_BOTH, SHM_MAGIC, SHM_VERSION, TOKEN, inbound_t, outbound_t, shm_bulk_size, shm_bytes,
    shm_segment, shm_t)
from pyrdv.fabrics.shm.doors cimport address_t, credentials, credentials_t
from pyrdv.fabrics.shm.lacks cimport (
    CALL_FALLOCATE, CALL_FTRUNCATE, CALL_MALLOC, CALL_MEMFD, CALL_MMAP, CALL_RECVMSG, CALL_SEALS,
    CALL_SENDMSG, refused)
from pyrdv.fabrics.shm.rights cimport may_copy


cdef extern from "handover.h" nogil:
    ssize_t handover_send(int socket, const void *data, size_t length, int fd)
    ssize_t handover_peek(int socket, void *data, size_t room, int *fd)
    void handover_done(int socket)

cdef extern from "<sys/mman.h>" nogil:
    int PROT_READ, PROT_WRITE, MAP_SHARED, MAP_POPULATE, MFD_CLOEXEC, MFD_ALLOW_SEALING
    void *MAP_FAILED
    int memfd_create(const char *name, unsigned int flags)
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void *address, size_t length)

cdef extern from "<sys/stat.h>" nogil:
    struct stat:
        long st_size
    int fstat(int fd, stat *out)

cdef extern from "<fcntl.h>" nogil:
    int F_ADD_SEALS, F_GET_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
    int fcntl(int fd, int command, ...)
    int posix_fallocate(int fd, long offset, long length)

cdef extern from "<unistd.h>" nogil:
    int ftruncate(int fd, long length)
    int close(int fd)

cdef struct hello_t:
    # The only message on a channel's socket; doorbells are single bytes.
    uint64_t magic
    uint32_t version
    uint32_t from_rank
    uint32_t to_rank
    uint32_t staged
    uint64_t mark_address
    uint64_t mark
    uint8_t token[32]


cdef int make_memory(uint32_t size, int *fd) noexcept nogil:
    # Allocated and sealed; 0, or the refused call with errno.
    cdef int failed
    fd[0] = memfd_create("pyrdv", MFD_CLOEXEC | MFD_ALLOW_SEALING)
    if fd[0] < 0:
        return CALL_MEMFD
    if ftruncate(fd[0], size):
        return CALL_FTRUNCATE
    failed = posix_fallocate(fd[0], 0, size)
    if failed:
        (&errno)[0] = failed
        return CALL_FALLOCATE
    if fcntl(fd[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL):
        return CALL_SEALS
    return 0


cdef shm_segment *make_segment(shm_t *self, uint32_t peer, uint32_t bulk, bint staged,
                               int *memory) noexcept nogil:
    # Mapped and ready to be handed over as *memory; NULL: it was refused.
    cdef uint32_t size = shm_bytes(bulk, staged)
    cdef shm_segment *segment = NULL
    cdef int fd, call = make_memory(size, &fd)
    if call == 0:
        segment = <shm_segment *> mmap(NULL, size, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_POPULATE, fd, 0)
        if <void *> segment == MAP_FAILED:
            call = CALL_MMAP
    if call:
        refused(self, call)
        if fd >= 0:
            close(fd)
        return NULL
    segment.magic = SHM_MAGIC
    segment.version = SHM_VERSION
    segment.bytes = size
    segment.from_rank = self.base.rank
    segment.to_rank = peer
    segment.staged = staged
    memory[0] = fd
    return segment


cdef shm_segment *take_segment(shm_t *self, int memory, const hello_t *hello, uint32_t bulk,
                               int *status) noexcept nogil:
    # G2: map what came with a hello, if it is what it must be.
    cdef stat facts
    cdef shm_segment *segment
    cdef uint32_t size = shm_bytes(bulk, hello.staged)
    cdef int seals = fcntl(memory, F_GET_SEALS)
    if seals < 0 or not seals & F_SEAL_SHRINK or not seals & F_SEAL_GROW:
        return NULL
    if fstat(memory, &facts) or facts.st_size != <long> size:
        return NULL
    # The pages of a hole would be allocated on first touch, which may fail.
    if posix_fallocate(memory, 0, size):
        return NULL
    segment = <shm_segment *> mmap(NULL, size, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_POPULATE, memory, 0)
    if <void *> segment == MAP_FAILED:
        refused(self, CALL_MMAP)
        status[0] = FABRIC_FAILED
        return NULL
    if (segment.magic != SHM_MAGIC or segment.version != SHM_VERSION or segment.bytes != size
            or segment.from_rank != hello.from_rank or segment.to_rank != hello.to_rank):
        munmap(segment, size)
        return NULL
    return segment


cdef outbound_t *prepare_outbound(shm_t *self, uint32_t rank,
                                  const address_t *address) noexcept nogil:
    cdef int memory = -1, call = 0
    cdef uint8_t may = 0
    cdef outbound_t *out
    if self.mode != 0:
        may = may_copy(<int> address.pid, address.mark_address, address.mark, &call)
    if self.mode == 2 and may != MAY_BOTH:
        refused(self, call)
        return NULL
    out = <outbound_t *> calloc(1, sizeof(outbound_t))
    if out == NULL:
        refused(self, CALL_MALLOC)
        return NULL
    out.bulk = shm_bulk_size(self.base.size)
    out.segment = make_segment(self, rank, out.bulk, may != MAY_BOTH, &memory)
    if out.segment == NULL:
        free(out)
        return NULL
    out.fd = -1
    out.memory = memory
    out.pid = <int> address.pid
    out.may = may
    out.has_cells = may != MAY_BOTH
    return out


cdef int hand_over(shm_t *self, uint32_t rank, outbound_t *out, int fd) noexcept nogil:
    cdef hello_t hello
    memset(&hello, 0, sizeof(hello))
    hello.magic = SHM_MAGIC
    hello.version = SHM_VERSION
    hello.from_rank = self.base.rank
    hello.to_rank = rank
    hello.staged = out.has_cells
    hello.mark_address = <uint64_t> &self.mark
    hello.mark = self.mark
    memcpy(hello.token, self.token, TOKEN)
    if handover_send(fd, &hello, sizeof(hello), out.memory) != sizeof(hello):
        if errno == EAGAIN or errno == EINTR or errno == EPIPE or errno == ECONNRESET:
            return FABRIC_AGAIN
        refused(self, CALL_SENDMSG)
        return FABRIC_FAILED
    close(out.memory)
    out.memory = -1
    out.fd = fd
    return FABRIC_OK


cdef bint acceptable(shm_t *self, const hello_t *hello) noexcept nogil:
    cdef uint8_t different = 0
    cdef int i
    if hello.magic != SHM_MAGIC or hello.version != SHM_VERSION:
        return False
    if hello.from_rank >= self.base.size or hello.to_rank != self.base.rank:
        return False
    for i in range(TOKEN):  # the time taken tells nothing
        different |= hello.token[i] ^ self.token[i]
    return different == 0 and self.peers[hello.from_rank].into == NULL and hello.staged <= 1


cdef inbound_t *open_inbound(shm_t *self, int fd, uint32_t *rank, int *status) noexcept nogil:
    cdef credentials_t who
    cdef hello_t hello
    cdef int memory = -1
    cdef inbound_t *into = NULL
    cdef shm_segment *segment = NULL
    cdef uint32_t bulk = shm_bulk_size(self.base.size)
    cdef int call = 0
    cdef ssize_t length
    (&errno)[0] = 0
    length = handover_peek(fd, &hello, sizeof(hello), &memory)
    if length < 0 and (errno == EAGAIN or errno == EINTR):
        status[0] = FABRIC_AGAIN
        return NULL
    status[0] = FABRIC_INVALID
    call = errno
    if (length == sizeof(hello) and credentials(fd, &who)
            and who.uid == self.uid and acceptable(self, &hello)):
        rank[0] = hello.from_rank
        if memory >= 0:
            segment = take_segment(self, memory, &hello, bulk, status)
        elif call:
            # Its descriptor did not come through for want of one here (G6).
            (&errno)[0] = call
            refused(self, CALL_RECVMSG)
            status[0] = FABRIC_FAILED
        if segment != NULL:
            into = <inbound_t *> calloc(1, sizeof(inbound_t))
            if into == NULL:
                refused(self, CALL_MALLOC)
                status[0] = FABRIC_FAILED
                munmap(segment, shm_bytes(bulk, hello.staged))
    if memory >= 0:
        close(memory)
    if into == NULL:
        return NULL
    handover_done(fd)
    into.segment = segment
    into.bulk = bulk
    into.fd = fd
    into.pid = who.pid
    into.staged = <uint8_t> hello.staged
    into.can_help = 0
    if self.mode != 0:
        into.can_help = may_copy(who.pid, hello.mark_address, hello.mark, &call)
    status[0] = FABRIC_OK
    return into


cdef void free_outbound(outbound_t *out) noexcept nogil:
    if out != NULL:
        if out.memory >= 0:
            close(out.memory)
        munmap(out.segment, shm_bytes(out.bulk, out.has_cells))
        free(out)


cdef void free_inbound(inbound_t *into) noexcept nogil:
    if into != NULL:
        munmap(into.segment, shm_bytes(into.bulk, into.staged))
        free(into)
