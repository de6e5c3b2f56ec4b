# cython: language_level=3
"""The two doors of a rank: listening sockets, and how peers come to them.

D1  The *private* door (pyrdv.doors) is a socket without a name; peers connect to
    /proc/PID/fd/PLACE.  The kernel asks whether they may look into this process and write
    to that place, so other users cannot even knock.
D2  The *public* door has an abstract name, which every user of the machine can read and
    connect to.  It is for peers that do not see this process in their /proc (another pid
    namespace), or may not look into it.  Who comes there is looked at before anything else
    (admission), and set_peers closes it where no peer needs it.
D3  Which door is used follows from the two addresses alone, on both sides alike: the
    private one if `reach` is equal, for it covers all that the kernel compares.
D4  A peer that lives has its door open, from before its address is published.  So a door
    that is not there means that the peer has ended.
"""
import os
from hashlib import blake2b

from libc.errno cimport (
    EACCES, EAGAIN, ECONNREFUSED, ECONNRESET, EINTR, ENOENT, ENOTDIR, EPERM, ESRCH, errno)
from libc.stdint cimport uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset

from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_FAILED, FABRIC_LOST, FABRIC_OK
from pyrdv.fabrics.shm.channel cimport shm_t
from pyrdv.fabrics.shm.lacks cimport CALL_CONNECT, CALL_SOCKET, refused

from pyrdv.doors import open_private


cdef extern from "<sys/socket.h>" nogil:
    int AF_UNIX, SOCK_SEQPACKET, SOCK_CLOEXEC, SOCK_NONBLOCK, SOL_SOCKET, SO_PEERCRED
    struct sockaddr:
        pass
    int socket(int domain, int kind, int protocol)
    int bind(int fd, const sockaddr *address, unsigned int length)
    int listen(int fd, int backlog)
    int connect(int fd, const sockaddr *address, unsigned int length)
    int getsockopt(int fd, int level, int name, void *value, unsigned int *length)

cdef extern from "<sys/un.h>" nogil:
    struct sockaddr_un:
        unsigned short sun_family
        char sun_path[108]

cdef extern from "<sys/prctl.h>" nogil:
    int PR_GET_DUMPABLE
    int prctl(int option, ...)

cdef extern from "<signal.h>" nogil:
    int kill(int pid, int signal)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)


cdef enum:
    BACKLOG = 4096      # admission.DEPTH relies on it


cdef unsigned int abstract(sockaddr_un *where, const uint8_t *name, uint32_t length) noexcept nogil:
    memset(where, 0, sizeof(sockaddr_un))
    where.sun_family = <unsigned short> AF_UNIX
    memcpy(&where.sun_path[1], name, length)
    return <unsigned int> (sizeof(unsigned short) + 1 + length)


cdef unsigned int hidden(sockaddr_un *where, uint32_t pid, int place) noexcept nogil:
    memset(where, 0, sizeof(sockaddr_un))
    where.sun_family = <unsigned short> AF_UNIX
    snprintf(where.sun_path, sizeof(where.sun_path), "/proc/%u/fd/%d", pid, place)
    return <unsigned int> sizeof(sockaddr_un)


cdef int open_public(const uint8_t *name, uint32_t length) noexcept nogil:
    cdef sockaddr_un where
    cdef unsigned int size = abstract(&where, name, length)
    cdef int kept
    cdef int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
    if fd < 0:
        return -1
    if bind(fd, <sockaddr *> &where, size) or listen(fd, BACKLOG):
        kept = errno
        close(fd)
        (&errno)[0] = kept
        return -1
    return fd


def _own_reach():
    """What the kernel compares when one process looks into another, as a number (D3).

    0: others may not look into this one, or it cannot be known.
    """
    if prctl(PR_GET_DUMPABLE) != 1 or len({*os.getresuid()}) > 1 or len({*os.getresgid()}) > 1:
        return 0
    try:
        with open("/proc/self/status", "rb") as file:
            facts = [line for line in file if line.startswith((b"CapPrm", b"CapEff"))]
        spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("pid", "user")]
    except OSError:
        return 0
    try:
        with open("/proc/self/attr/current", "rb") as file:
            facts.append(file.read())
    except OSError:
        pass    # no security module has labels here
    text = repr((facts, spaces, os.getresuid(), os.getresgid()))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") | 1


cdef open_doors(shm_t *self, address_t *own):
    cdef bytes name = b"pyrdv-" + os.urandom(16).hex().encode()
    cdef int kept
    own.place = -1
    own.name_length = <uint32_t> len(name)
    memcpy(own.name, <const uint8_t *> name, len(name))
    try:
        own.space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        own.space = 0
    self.public_fd = open_public(own.name, own.name_length)
    if self.public_fd < 0:
        kept = errno
        raise OSError(kept, os.strerror(kept))
    # A second name: this one can be read by everybody.
    reached = _own_reach()
    made = open_private(SOCK_SEQPACKET, "pyrdv-" + os.urandom(16).hex()) if reached else None
    if made is not None:
        own.reach = reached
        self.private_fd, self.place_fd = made
        own.place = self.place_fd


cdef bint credentials(int fd, credentials_t *out) noexcept nogil:
    cdef unsigned int length = sizeof(credentials_t)
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &length) == 0


cdef int refusal(shm_t *self, const address_t *address, bint private, int error) noexcept nogil:
    """What it means that a door cannot be connected to (D4)."""
    if error == EAGAIN or error == EINTR:
        return FABRIC_AGAIN     # its queue is full
    if error == ECONNREFUSED or error == ECONNRESET:
        return FABRIC_LOST
    if private and (error == ENOENT or error == ENOTDIR or error == ESRCH):
        return FABRIC_LOST
    if private and error == EACCES and kill(<int> address.pid, 0) and errno == EPERM:
        return FABRIC_LOST      # the number belongs to another user's process by now
    (&errno)[0] = error
    refused(self, CALL_CONNECT)
    return FABRIC_FAILED


cdef int reach(shm_t *self, const address_t *address, credentials_t *who,
               int *status) noexcept nogil:
    cdef const address_t *own = <const address_t *> self.peers[self.base.rank].address
    cdef bint private = own.reach != 0 and own.reach == address.reach
    cdef sockaddr_un where
    cdef unsigned int size
    cdef int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
    status[0] = FABRIC_FAILED
    if fd < 0:
        refused(self, CALL_SOCKET)
        return -1
    if private:
        size = hidden(&where, address.pid, address.place)
    else:
        size = abstract(&where, address.name, address.name_length)
    if connect(fd, <sockaddr *> &where, size):
        status[0] = refusal(self, address, private, errno)
    elif not credentials(fd, who):
        refused(self, CALL_CONNECT)
    elif who.uid != self.uid:
        (&errno)[0] = EACCES
        refused(self, CALL_CONNECT)
    else:
        status[0] = FABRIC_OK
        return fd
    close(fd)
    return -1
