# cython: language_level=3
"""The consumer's side of transfers: helping to copy, or serving the cells.

J1-J7 stand in transfer.pyx.
"""
from libc.errno cimport EFAULT, EINTR, ESRCH, errno
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.fabrics.contract cimport (
    ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, FABRIC_FAILED, FABRIC_INVALID, FABRIC_LOST, FABRIC_OK)
from pyrdv.fabrics.shm.channel cimport (
    MAY_READ, MAY_WRITE, SHM_CHUNK_MAX, SHM_JOBS, add32, claim64, fail_peer, glance32, glance64,
    granted, inbound_t, note32, observe32, observe64, shm_claim_chunks, shm_claim_next, shm_job,
    shm_t, wake_producer)
from pyrdv.fabrics.shm.rights cimport iovec, process_vm_readv, process_vm_writev
from pyrdv.fabrics.shm.staging cimport stage_serve
from pyrdv.fabrics.shm.tails cimport tail_take


cdef int copy_chunk(int pid, uint64_t local, uint64_t remote, uint64_t length,
                    bint reading) noexcept nogil:
    # The kernel may move less at a time.
    cdef iovec mine, theirs
    cdef ssize_t done
    cdef int kept = errno
    while length:
        mine.iov_base = <void *> local
        theirs.iov_base = <void *> remote
        mine.iov_len = length
        theirs.iov_len = length
        if reading:
            done = process_vm_readv(pid, &mine, 1, &theirs, 1, 0)
        else:
            done = process_vm_writev(pid, &mine, 1, &theirs, 1, 0)
        if done <= 0:
            if done < 0 and errno == EINTR:
                continue
            if done < 0 and errno == ESRCH:
                return FABRIC_LOST
            if done == 0 or errno == EFAULT:
                return FABRIC_INVALID
            return FABRIC_FAILED
        local += done
        remote += done
        length -= done
    (&errno)[0] = kept
    return FABRIC_OK


cdef bint help_one(shm_t *self, inbound_t *into) noexcept nogil:
    # Claim and move one chunk of the peer's transfers.  Partner: share.
    cdef uint32_t seen = observe32(&into.segment.help)
    cdef uint32_t chunk_size
    cdef int index
    cdef uint64_t word, key, offset, length, mine, theirs
    cdef shm_job *job
    cdef bint reading
    for index in range(SHM_JOBS):
        job = &into.segment.jobs[index]
        word = observe64(&job.claim)
        if shm_claim_next(word) >= shm_claim_chunks(word):
            continue
        chunk_size = glance32(&job.chunk)
        length = glance64(&job.length)
        mine = glance64(&job.consumer_address)
        theirs = glance64(&job.producer_address)
        key = glance64(&job.key)
        reading = glance32(&job.to_producer)
        if not into.can_help & (MAY_WRITE if reading else MAY_READ):
            continue  # left to the poster, for the kernel forbids it
        offset = <uint64_t> shm_claim_next(word) * chunk_size
        if not 0 < chunk_size <= SHM_CHUNK_MAX or offset >= length:
            continue  # an entry in change, or nonsense: not helped (J1, R8)
        length -= offset
        if length > chunk_size:
            length = chunk_size
        if not granted(self, key, mine + offset, length,
                       ACCESS_REMOTE_READ if reading else ACCESS_REMOTE_WRITE):
            continue  # left to the poster (J7)
        if not claim64(&job.claim, word, word + 1):
            continue
        if copy_chunk(into.pid, mine + offset, theirs + offset, length, not reading) != FABRIC_OK:
            note32(&job.helper_error, 1)
        if (add32(&job.done, 1) == shm_claim_chunks(word)
                and not glance32(&job.helper_error)):
            tail_take(into, index, word)
        self.counters.chunks_helped += 1
        self.base.carried += 1
        wake_producer(self, into)
        return True
    into.help_seen = seen
    return False


cdef bint help_turn(shm_t *self) noexcept nogil:
    # One chunk for one peer, peers in rotation.
    cdef uint32_t k, index, count = self.lively_count
    cdef inbound_t *into
    cdef int moved
    for k in range(count):
        index = (self.rotation + k) % count
        into = self.inbound[index]
        if into.staged:
            if into.serving or glance32(&into.segment.help) != into.help_seen:
                into.help_seen = observe32(&into.segment.help)
                moved = stage_serve(self, into)
                if moved < 0:
                    fail_peer(self, self.inbound_rank[index])
                if moved > 0:
                    return True
                if into.can_help and help_one(self, into):
                    return True
        elif glance32(&into.segment.help) != into.help_seen:
            if not into.can_help:
                into.help_seen = observe32(&into.segment.help)
            elif help_one(self, into):
                return True
    return False
