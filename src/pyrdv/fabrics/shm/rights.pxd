# cython: language_level=3
"""Whether the kernel lets this process copy from and to another one (see .pyx)."""
from libc.stdint cimport uint8_t, uint64_t


cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t process_vm_readv(int pid, const iovec *local, unsigned long local_count,
                             const iovec *remote, unsigned long remote_count,
                             unsigned long flags)
    ssize_t process_vm_writev(int pid, const iovec *local, unsigned long local_count,
                              const iovec *remote, unsigned long remote_count,
                              unsigned long flags)

# call.  Of MAY_READ and MAY_WRITE (channel.pxd), what this process may do to `pid`, in which
# `mark` stands at `mark_address`.  `call` and errno: what was refused, if anything was.
cdef uint8_t may_copy(int pid, uint64_t mark_address, uint64_t mark, int *call) noexcept nogil
