# cython: language_level=3
"""What the system, or the device, refuses to a connection at this end.

R1  A refusal is no failure of the peer.  The link stays with what it has got, idle, and says
    what it lacks (`link.lack`); `base.lacks` tells the engine, which tells the program.
R2  What was refused is tried again, by each connect, and after RETRY_NS by itself.  Memory and
    completion queue come before anybody is asked, so the caller of the first connect is told
    of their lack at once; the queue pair needs the id, and comes when the route is known.
R3  A request that cannot be served is refused with REJECT_RESOURCES.  The peer asks again and
    again and waits meanwhile, however long: it is told that this rank lives.  This end keeps an
    idle link for it and tries by each maintain whether it could take the next request.  If no
    request comes for a peer timeout, the peer wants no connection any more.
R4  A peer's own lack (`peer.said`) explains its end, if that comes next.
"""
from libc.errno cimport EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOMEM
from libc.stdint cimport int64_t, uint32_t

from pyrdv.fabrics.contract cimport LACK_ACCEPT, LACK_CONNECT, lack_begins, lack_ends
from pyrdv.fabrics.verbs.link cimport link_free, link_rehearse, now_ns
from pyrdv.fabrics.verbs.state cimport link_t, verbs_t


cdef enum:
    RETRY_NS = 50_000_000           # between two tries without a call


cdef bint is_lack(int error) noexcept nogil:
    return (error == ENOMEM or error == EMFILE or error == ENFILE or error == ENOBUFS
            or error == EAGAIN)


cdef void connect_lacks(verbs_t *f, uint32_t peer, link_t *link, int problem) noexcept nogil:
    f.base.error = problem & 0xFFFF
    f.peers[peer].connect_lack = problem
    if f.base.lacks[peer] & LACK_ACCEPT:
        f.peers[peer].accept_lack = problem     # the peer waits for this connection (J7)
    lack_begins(&f.base, peer, LACK_CONNECT)
    if link != NULL:
        link.lack = problem
        link.deadline = now_ns() + RETRY_NS


cdef void accept_lacks(verbs_t *f, uint32_t peer, link_t *link, int problem) noexcept nogil:
    cdef int64_t now = now_ns()
    f.base.error = problem & 0xFFFF
    f.peers[peer].accept_lack = problem
    lack_begins(&f.base, peer, LACK_ACCEPT)
    if link != NULL:
        link.lack = problem
        link.deadline = now + RETRY_NS
        link.heard_at = now + f.peer_timeout


cdef bint asked_for(verbs_t *f, link_t *link, int64_t now) noexcept nogil:
    if f.base.lacks[link.peer] & LACK_ACCEPT and now >= link.heard_at:
        lack_ends(&f.base, link.peer, LACK_ACCEPT)
    return f.base.lacks[link.peer] & LACK_ACCEPT != 0


cdef void lacks_nothing(verbs_t *f, link_t *link) noexcept nogil:
    link.lack = 0
    lack_ends(&f.base, link.peer, LACK_CONNECT | LACK_ACCEPT)


cdef bint await_request(verbs_t *f, link_t *link, int64_t now) noexcept nogil:
    cdef int problem
    if now >= link.heard_at:
        link_free(f, link)
        return True
    if link.lack == 0:
        return False
    problem = link_rehearse(f, link)
    if problem:
        f.peers[link.peer].accept_lack = problem
        link.lack = problem
        link.deadline = now + RETRY_NS
        return False
    lacks_nothing(f, link)
    link.deadline = link.heard_at
    return True
