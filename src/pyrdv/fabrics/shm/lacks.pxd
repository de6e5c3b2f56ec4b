# cython: language_level=3
"""What the system refused to this end, and what a peer said last (see .pyx)."""
from libc.stdint cimport uint32_t

from pyrdv.fabrics.shm.channel cimport shm_t


cdef enum refused_call:
    # A call that the system refused: shm_t.call, named by CALLS in the .pyx.
    CALL_NONE = 0
    CALL_SOCKET = 1
    CALL_CONNECT = 2
    CALL_ACCEPT = 3
    CALL_SENDMSG = 4
    CALL_RECVMSG = 5
    CALL_MEMFD = 6
    CALL_FTRUNCATE = 7
    CALL_FALLOCATE = 8
    CALL_SEALS = 9
    CALL_MMAP = 10
    CALL_MALLOC = 11
    CALL_EPOLL_CTL = 12
    CALL_EPOLL_WAIT = 13
    CALL_READV = 14
    CALL_WRITEV = 15

# step.  The system refused `call`; errno says why.
cdef void refused(shm_t *self, int call) noexcept nogil
# call.  What was refused last stands between this end and `rank`: its connection there cannot be
# made, or one from there that waits cannot be taken.
cdef void connect_lacks(shm_t *self, uint32_t rank) noexcept nogil
cdef void accept_lacks(shm_t *self, uint32_t rank) noexcept nogil
# call.  Somebody waits at a door and cannot be let in, whoever it is; or `everything` is closed.
cdef void doors_lack(shm_t *self, bint everything) noexcept nogil
# call.  Whoever waited at the doors is in.
cdef void doors_free(shm_t *self) noexcept nogil
# call.  Empty the socket of a channel of `rank`: doorbells, and perhaps its last words.
cdef void words_take(shm_t *self, uint32_t rank, int fd) noexcept nogil
# call.  Tell all peers why this end ends; needs the GIL.
cdef words_say(shm_t *self, bytes text)
# What it lacks for the connection to `rank`, or `incoming` from there, and what that said last;
# need the GIL.
cdef str lack_words(const shm_t *self, uint32_t rank, bint incoming)
cdef str last_words(const shm_t *self, uint32_t rank)
