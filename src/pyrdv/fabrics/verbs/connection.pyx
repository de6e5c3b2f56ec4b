# cython: language_level=3
"""The control path: events, silence, the end of a link, of a device, of a fabric.

N1  An event is copied and acknowledged before it is acted upon: destroying an
    id waits for the acknowledgement of all its events.
N2  Nothing waits, but for connection_farewell and the kernel's own teardown.
N3  An address is bound for each listener, never the wildcard: iWARP cannot
    listen on that, and it is how a device is chosen.  The listeners form a list
    through ``context``; the context of every other id is its queue pair.
N4  A link that was up ends here: what has arrived is taken first, so that a
    peer that said BYE and left is not taken for lost (F7).  A disconnection or
    a failure alone does not say which of the two it was.
N5  A dead machine or a cut cable raises no event.  A silent link is pinged: a
    READ of the peer's control word, which its device or kernel answers, not
    its program; `silence` says when, and when it is given up.  rxe itself
    repeats for ever.  A ping waits behind earlier transfers, so these are
    small pieces (TRANSFER_MAX), each of which is heard.  What this process
    did not see counts for nobody: completions are taken before the verdict.
N6  A removed device is let go of at once and completely, for its removal waits.
N7  While events wait, nothing is concluded from the time: what refutes it may be
    among them.  But events could come for ever, so after CROWD full turns time counts
    again.  Requests at the door refute nothing: who sent them sends them again.
"""
from libc.errno cimport EINVAL, ENODEV
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport (
    FABRIC_AGAIN, FABRIC_FAILED, FABRIC_LOST, FABRIC_OK, fabric_t)
from pyrdv.fabrics.verbs.admission cimport door_close, door_fd
from pyrdv.fabrics.verbs.joining cimport (
    PRIVATE_ROOM, join_again, join_event, join_fail, join_look, join_request, join_start, news_t)
from pyrdv.fabrics.verbs.lacks cimport idle
from pyrdv.fabrics.verbs.libibverbs cimport IBV_EVENT_DEVICE_FATAL, ibv_async_event
from pyrdv.fabrics.verbs.librdmacm cimport (
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_DISCONNECTED,
    rdma_cm_event, rdma_cm_id, rdma_event_channel)
from pyrdv.fabrics.verbs.link cimport link_bury, link_down, link_free, links_settle, now_ns
from pyrdv.fabrics.verbs.memory cimport memory_close
from pyrdv.fabrics.verbs.posting cimport link_fail, link_owe
from pyrdv.fabrics.verbs.queue_pair cimport events_acknowledge
from pyrdv.fabrics.verbs.silence cimport (
    SILENCE_ASK, SILENCE_LOST, silence_ends, silence_judge)
from pyrdv.fabrics.verbs.state cimport (
    FAIL_DEVICE, FAIL_DISCONNECTED, FAIL_NONE, FAIL_SILENT, LINK_DOWN, LINK_UP, OWE_BYE,
    OWE_PING, link_t, peer_t, qp_t, verbs_t)


cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    short POLLIN
    int poll(pollfd *fds, unsigned long count, int timeout)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)


cdef enum:
    EVENTS = 64             # handled by one turn
    CROWD = 64              # full turns until time counts again (N7)


# Events ---------------------------------------------------------------------

cdef bint next_news(verbs_t *f, rdma_event_channel *channel, news_t *out) noexcept nogil:
    """Take one event (N1); False: there is none."""
    cdef rdma_cm_event *event = NULL
    if f.lib.rdma_get_cm_event(channel, &event):
        return False
    out.event = event.event
    out.status = event.status
    out.id = event.id
    out.listener = event.listen_id
    out.responder_resources = event.param.conn.responder_resources
    out.initiator_depth = event.param.conn.initiator_depth
    out.length = 0
    if event.param.conn.private_data != NULL:
        out.length = min(<uint32_t> event.param.conn.private_data_len, <uint32_t> PRIVATE_ROOM)
        memcpy(out.data, event.param.conn.private_data, out.length)
    f.lib.rdma_ack_cm_event(event)
    return True


cdef bint is_listener(const verbs_t *f, const rdma_cm_id *ident) noexcept nogil:
    cdef const rdma_cm_id *at = f.listener
    while at != NULL:
        if at == ident:
            return True
        at = <const rdma_cm_id *> at.context
    return False


cdef void heed(verbs_t *f, const news_t *news) noexcept nogil:
    cdef link_t *link
    if news.event == RDMA_CM_EVENT_DEVICE_REMOVAL:
        device_lost(f)
    elif news.event == RDMA_CM_EVENT_CONNECT_REQUEST:
        join_request(f, news)
    elif not is_listener(f, news.id):
        link = (<qp_t *> news.id.context).link
        if link.state < LINK_UP:
            join_event(f, link, news)
        if news.event == RDMA_CM_EVENT_DISCONNECTED:
            disconnected(f, news.id)


cdef void disconnected(verbs_t *f, const rdma_cm_id *ident) noexcept nogil:
    # The link is looked for anew: it may have come up or gone while the event was handled.
    cdef uint32_t i
    for i in range(f.link_room):
        if f.links[i] != NULL and f.links[i].qp.id == ident and f.links[i].state == LINK_UP:
            f.links[i].ending = 1
            return


cdef int hear(verbs_t *f) noexcept nogil:
    """Handle what waits in the event channel, bounded; how much."""
    cdef news_t news
    cdef int count = 0
    while count < EVENTS and f.events != NULL and next_news(f, f.events, &news):
        count += 1
        heed(f, &news)
    return count


cdef int hear_door(verbs_t *f) noexcept nogil:
    """Handle what waits at the door, bounded (A2); how many were no strangers."""
    cdef news_t news
    cdef int count = 0
    cdef uint64_t refused = f.counters.refused
    while count < EVENTS and not f.deaf and f.door != NULL and next_news(f, f.door, &news):
        count += 1
        heed(f, &news)
    return count - <int> (f.counters.refused - refused)


cdef int hear_device(verbs_t *f) noexcept nogil:
    cdef ibv_async_event event
    cdef int count = 0
    while count < EVENTS and f.context != NULL and f.lib.ibv_get_async_event(
            f.context, &event) == 0:
        count += 1
        f.lib.ibv_ack_async_event(&event)
        if event.event_type == IBV_EVENT_DEVICE_FATAL:
            device_lost(f)
    return count


# Links that are up ----------------------------------------------------------

cdef bint silent(verbs_t *f, link_t *link, int64_t now) noexcept nogil:
    """Ping a silent link; whether it has been silent for too long (N5)."""
    cdef int verdict
    if link.heard:
        link.heard = 0
        link.heard_at = now
        if link.pinged_at:
            link.pinged_at = now    # it waits behind what was heard
    verdict = silence_judge(now, link.heard_at, link.pinged_at, f.peer_timeout, f.iwarp)
    if verdict == SILENCE_ASK:
        link.pinged_at = now
        link_owe(f, link, OWE_PING)
    if verdict != SILENCE_LOST:
        return False
    links_settle(f)
    return not link.heard and link.pinged_at != 0


cdef bint look(verbs_t *f, link_t *link, int64_t now) noexcept nogil:
    """What time and failures did to `link`; whether something happened."""
    if link.state == LINK_DOWN:
        if f.peers[link.peer].link == link or (link.qp.id != NULL and now < link.deadline):
            return False        # not told yet, or lingering (K5)
        link_free(f, link)
        return True
    if link.state != LINK_UP:
        return join_look(f, link, now)
    if link.failure == FAIL_NONE and not link.ending and silent(f, link, now):
        link_fail(f, link, FAIL_SILENT, <int> ((now - link.pinged_at) // 1000000))
    if link.failure == FAIL_NONE and not link.ending:
        if f.peers[link.peer].leaving and not link.bye_sent and not link.owed & OWE_BYE:
            link_owe(f, link, OWE_BYE)  # it came up after verbs_disconnect
        return False
    if link.ending:
        links_settle(f)
        link_fail(f, link, FAIL_DISCONNECTED, 0)
    link_down(f, link)
    return True


cdef bint connection_refused(const verbs_t *f, uint32_t peer) noexcept nogil:
    cdef const peer_t *p = &f.peers[peer]
    return (p.ended or p.failure != FAIL_NONE or f.base.lacks[peer] != 0
            or p.link != NULL and p.link.state == LINK_DOWN)


cdef int connection_turn(verbs_t *f) noexcept nogil:
    cdef pollfd watched[3]
    cdef int happened = 0
    cdef int came = 0
    # Where a look at the clock is a system call, one more is felt by each small message.
    cdef int64_t now = now_ns()
    if f.events == NULL:
        return look_around(f, now)
    watched[0] = pollfd(f.events.fd, POLLIN, 0)
    watched[1] = pollfd(f.context.async_fd if f.context != NULL else -1, POLLIN, 0)
    watched[2] = pollfd(door_fd(f, now), POLLIN, 0)
    if poll(watched, 3, 0) > 0:
        if watched[0].revents:
            happened += hear(f)
        if watched[1].revents:
            happened += hear_device(f)
        if watched[2].revents:
            came = hear_door(f)
        now = now_ns()
    f.crowded = f.crowded + 1 if happened >= EVENTS else 0
    if f.crowded % CROWD:
        f.base.calm = 0
        return happened + came      # N7
    return happened + came + look_around(f, now)


cdef inline bint moving(const verbs_t *f, const link_t *link) noexcept nogil:
    """Whether `link` comes up or ends, so that `connection_turn` has to come back soon."""
    return link.state != LINK_DOWN and (
        link.state != LINK_UP or link.failure != FAIL_NONE or link.ending
        or f.peers[link.peer].leaving)


cdef int look_around(verbs_t *f, int64_t now) noexcept nogil:
    cdef uint32_t i
    cdef int happened = 0
    cdef bint calm = True
    for i in range(f.link_room):
        if f.links[i] != NULL:
            happened += look(f, f.links[i], now)
        if f.links[i] != NULL and moving(f, f.links[i]):
            calm = False
    f.base.calm = calm and not f.call_wanted
    return happened


cdef int64_t connection_due(const verbs_t *f) noexcept nogil:
    cdef int64_t due = f.ping_every
    cdef int64_t now = now_ns()
    cdef int64_t left
    cdef uint32_t i
    if f.deaf:
        due = max(<int64_t> 1, min(due, f.hear_at - now))
    for i in range(f.link_room):
        if f.links[i] != NULL and f.links[i].state != LINK_DOWN:
            left = f.links[i].deadline - now
            if f.links[i].state == LINK_UP:
                left = silence_ends(f.links[i].heard_at, f.links[i].pinged_at, f.peer_timeout,
                                    f.iwarp) - now
            due = min(due, left if left > 0 else 1)
    return due


cdef void connection_wait(verbs_t *f, int ms) noexcept nogil:
    cdef pollfd watched[2]
    watched[0] = pollfd(f.events.fd if f.events != NULL else -1, POLLIN, 0)
    watched[1] = pollfd(f.door.fd if f.door != NULL and not f.deaf else -1, POLLIN, 0)
    poll(watched, 2, ms)


# The operations of the contract ---------------------------------------------

cdef int verbs_connect(fabric_t *self, uint32_t peer) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef peer_t *p
    if peer >= self.size or peer == self.rank or f.peers[peer].leaving:
        self.error = EINVAL
        return FABRIC_FAILED
    p = &f.peers[peer]
    if p.ended:
        return FABRIC_LOST
    if p.link != NULL:
        if p.link.state == LINK_UP and p.link.failure == FAIL_NONE:
            return FABRIC_OK
        if idle(p.link):
            return join_again(f, peer)
        return FABRIC_LOST if p.link.state == LINK_DOWN else FABRIC_AGAIN
    if p.failure:
        return FABRIC_LOST
    if f.events == NULL and not f.device_gone:
        self.error = EINVAL
        return FABRIC_FAILED
    return join_start(f, peer)


cdef void verbs_disconnect(fabric_t *self, uint32_t peer) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef link_t *link
    if peer >= self.size or peer == self.rank or f.peers[peer].leaving:
        return
    f.peers[peer].leaving = 1
    f.base.calm = 0
    link = f.peers[peer].link
    if link != NULL and link.state == LINK_UP:
        link_owe(f, link, OWE_BYE)


# Closing --------------------------------------------------------------------

cdef bint taking_leave(verbs_t *f, link_t *link) noexcept nogil:
    """Whether the peer may not have got everything yet; asks it once BYE was posted.

    A READ that was answered shows that everything before it has arrived (V5).
    """
    if link.state != LINK_UP or link.failure != FAIL_NONE or link.ending:
        return False
    if not f.peers[link.peer].leaving:
        return False
    if not link.bye_sent:
        if not link.owed & OWE_BYE:
            link_owe(f, link, OWE_BYE)
        return True
    if link.deadline == 0:
        link.deadline = 1       # unused while a link is up: the question was asked
        link_owe(f, link, OWE_PING)
    return link.owed & OWE_PING or link.qp.sq_done != link.qp.sq_head


cdef void connection_farewell(verbs_t *f) noexcept nogil:
    cdef int64_t limit = now_ns() + f.peer_timeout
    cdef uint32_t i
    cdef bint waiting = True
    cdef int rounds = 0
    while waiting:
        links_settle(f)
        pay_owed(f)
        waiting = False
        for i in range(f.link_room):
            if f.links[i] != NULL and taking_leave(f, f.links[i]):
                waiting = True
        if not waiting or now_ns() > limit:
            return
        rounds += 1
        if rounds > 20:
            connection_wait(f, 1)
        hear(f)
        if f.device_gone:
            return


cdef void pay_owed(verbs_t *f) noexcept nogil:
    # What poll does for links that lacked room.
    cdef uint32_t i
    for i in range(f.link_room):
        if f.links[i] != NULL and f.links[i].owed and f.links[i].state == LINK_UP:
            link_owe(f, f.links[i], 0)


cdef void device_close(verbs_t *f) noexcept nogil:
    """Give everything that belongs to the device back."""
    cdef rdma_cm_id *ident = f.listener
    cdef rdma_cm_id *next
    cdef uint32_t i
    events_acknowledge(f)       # or the destruction would wait for that
    for i in range(f.queue_count):
        f.lib.ibv_destroy_cq(f.queues[i].cq)
    f.queue_count = 0
    memory_close(f)
    while ident != NULL:
        next = <rdma_cm_id *> ident.context
        f.lib.rdma_destroy_id(ident)
        ident = next
    f.listener = NULL
    if f.channel != NULL:
        f.lib.ibv_destroy_comp_channel(f.channel)
        f.channel = NULL
    if f.pd != NULL:
        f.lib.ibv_dealloc_pd(f.pd)
        f.pd = NULL
    f.context = NULL


cdef void device_lost(verbs_t *f) noexcept nogil:
    """N6: the device was removed or is broken; every link is lost."""
    cdef link_t *link
    cdef uint32_t i
    if f.device_gone:
        return
    f.device_gone = 1
    for i in range(f.link_room):
        link = f.links[i]
        if link == NULL:
            continue
        if link.state == LINK_UP:
            link_fail(f, link, FAIL_DEVICE, ENODEV)
            link_down(f, link)
        elif link.state == LINK_DOWN:
            link_bury(f, link)
        else:
            join_fail(f, link, FAIL_DEVICE, ENODEV)
    device_close(f)


cdef void close_fd(int *fd) noexcept nogil:
    if fd[0] >= 0:
        close(fd[0])
    fd[0] = -1


cdef void connection_close(verbs_t *f) noexcept nogil:
    cdef uint32_t i
    for i in range(f.link_room):
        if f.links[i] != NULL:
            link_down(f, f.links[i])
            link_free(f, f.links[i])
    device_close(f)
    if f.events != NULL:
        f.lib.rdma_destroy_event_channel(f.events)
        f.events = NULL
    door_close(f)
    close_fd(&f.timer_fd)
    close_fd(&f.kick_fd)
    close_fd(&f.base.wake_fd)


cdef void connection_abandon(verbs_t *f) noexcept nogil:
    # The objects are the parent's: any call would act on its connections, or fail.
    if f.context != NULL:
        close(f.context.cmd_fd)
        close(f.context.async_fd)
    if f.channel != NULL:
        close(f.channel.fd)
    if f.events != NULL:
        close(f.events.fd)
    if f.door != NULL:
        close(f.door.fd)
    f.queue_count = 0
    f.context = NULL
    f.channel = NULL
    f.events = NULL
    f.door = NULL
    f.listener = NULL
    f.pd = NULL
    f.device_gone = 1
    close_fd(&f.timer_fd)
    close_fd(&f.kick_fd)
    close_fd(&f.base.wake_fd)
