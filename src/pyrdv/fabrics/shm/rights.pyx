# cython: language_level=3
"""Whether the kernel lets this process copy from and to another one.

Reading and writing are two calls, and a seccomp filter may deny either.  Reading is tried on a word
that the peer has published, which also shows that `pid` is that peer.  Writing is tried on an
address that nobody has, in the first page: the kernel asks for the right first, so EFAULT says that
it would have been allowed, and nothing of the peer's is touched, whoever it is.
"""
from libc.errno cimport EFAULT, ESRCH, errno
from libc.stdint cimport uint8_t, uint64_t

from pyrdv.fabrics.shm.channel cimport MAY_READ, MAY_WRITE
from pyrdv.fabrics.shm.lacks cimport CALL_READV, CALL_WRITEV


cdef enum:
    NOWHERE = 64        # an address in the first page


cdef uint8_t may_copy(int pid, uint64_t mark_address, uint64_t mark, int *call) noexcept nogil:
    cdef uint64_t word = 0
    cdef iovec mine, theirs
    cdef uint8_t may = 0
    cdef int refusal = 0
    mine.iov_base = &word
    mine.iov_len = sizeof(word)
    theirs.iov_base = <void *> <uint64_t> NOWHERE
    theirs.iov_len = sizeof(word)
    if process_vm_writev(pid, &mine, 1, &theirs, 1, 0) < 0 and errno == EFAULT:
        may |= MAY_WRITE
    else:
        refusal = errno
        call[0] = CALL_WRITEV
    theirs.iov_base = <void *> mark_address
    if process_vm_readv(pid, &mine, 1, &theirs, 1, 0) != sizeof(word):
        refusal = errno
        call[0] = CALL_READV
    elif word == mark:
        may |= MAY_READ
    else:
        # Somebody else has that number here: another pid namespace.
        may = 0
        refusal = ESRCH
        call[0] = CALL_READV
    (&errno)[0] = refusal
    return may
