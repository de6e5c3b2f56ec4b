# cython: language_level=3
"""Admission: how much work strangers can make who send requests.

A1  The listeners have an event channel of their own, the door.  What connections and the device
    tell comes through the other one, so strangers never delay it.  A request that is taken
    moves there.
A2  Strangers cost a bounded time: after STRANGERS of them, each within a WINDOW of the one
    before, the door is left alone for a WINDOW.  A timer wakes the sleeper up then (F8).
A3  The queue of requests is the kernel's, of a bounded length, in the order of arrival.  When
    it is full the kernel refuses a request, and a rank that is refused asks again.
A4  A stranger is who is refused for what it says (H3), whatever rank it claims to be, and who
    takes the place of a connection that has not said HELLO: such requests may be recorded ones.
    Ranks do either rarely, and lose a WINDOW by it.
"""
from libc.stdint cimport int64_t

from pyrdv.fabrics.verbs.link cimport now_ns
from pyrdv.fabrics.verbs.opening cimport unblocking, watch
from pyrdv.fabrics.verbs.state cimport verbs_t


cdef extern from "<sys/epoll.h>" nogil:
    int EPOLL_CTL_DEL
    struct epoll_event:
        pass
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)


cdef enum:
    STRANGERS = 8               # per WINDOW, a few per cent of a processor
    WINDOW_NS = 10_000_000


cdef int door_open(verbs_t *f) noexcept nogil:
    f.door = f.lib.rdma_create_event_channel()
    return -1 if f.door == NULL or unblocking(f.door.fd) or watch(f, f.door.fd) else 0


cdef void door_close(verbs_t *f) noexcept nogil:
    if f.door != NULL:
        f.lib.rdma_destroy_event_channel(f.door)
        f.door = NULL


cdef int door_fd(verbs_t *f, int64_t now) noexcept nogil:
    if f.door == NULL:
        return -1
    if f.deaf and now >= f.hear_at:
        f.deaf = 0
        watch(f, f.door.fd)
    return -1 if f.deaf else f.door.fd


cdef void count_stranger(verbs_t *f) noexcept nogil:
    cdef int64_t now = now_ns()
    if now - f.stranger_at >= WINDOW_NS:
        f.strangers = 0
    f.stranger_at = now
    f.strangers += 1
    if f.strangers >= STRANGERS and not f.deaf and f.door != NULL:
        f.strangers = 0
        f.deaf = 1
        f.hear_at = now + WINDOW_NS
        epoll_ctl(f.base.wake_fd, EPOLL_CTL_DEL, f.door.fd, NULL)
