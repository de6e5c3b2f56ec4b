# cython: language_level=3
"""Setting connections up, from either side, without ever blocking.

J1  One link per pair (P10).  If both sides connect at once, the attempt of the lower rank goes on:
    that rank refuses the other's request (REJECT_RIVAL); the other drops its own when it sees the
    request of the lower rank, or tries again after the refusal, for its request may have been the
    only one.
J2  A request of a peer whose earlier one was accepted, but which has not said HELLO, replaces that
    one: the peer has given it up.  (The very same request again is somebody else's recording.)
J3  Addresses are tried in the order of their promise, and again from the first, until the limit.  A
    request that was sent may wait long: the peer may be computing, and only its kernel knows of the
    request.  So it is sent anew from time to time, by a new address resolution, which fails if the
    peer's machine is gone, and is given up after ANSWER_PATIENCE peer timeouts.  A kernel's own
    refusal says that the peer does not listen any more: then the limit comes near.
J4  While a link is not up, ``heard_at`` is the limit of the whole set-up and ``deadline`` that of
    the present step; in LINK_NEW, when to try again. ``ending`` says that a request was sent once.
J5  On iWARP the kernel waits, when an id is destroyed, for the answer to its request, up to its own
    time-out of several seconds.  So an attempt with a request under way is not destroyed there but
    orphaned: no peer names it any more, and the answer, whatever it is, ends it.  For the same
    reason only the kernel's time-out has a request repeated.
J6  A peer to which the set-up failed stays lost: peer.failure.  Its reason is in peer.wc_status:
    reject_reason << 16 | detail, an errno, or ms.  What only this end lacks is no failure
    (lacks.pyx).
J7  A connection has the path MTU of the active side's port: the connection manager knows no other,
    and larger packets would be lost on the way to a smaller port (field case N02).  So the side
    with the smaller one connects: it starts, unless it is connecting already, and refuses the
    other's request: REJECT_MTU, or REJECT_RESOURCES if it lacks something for that.  Then it cannot
    take the other's connection either, and both ends say so (R3). Rank decides between equals (J1).
J8  Whoever asks is told why the request is not served: by a reason of refusal. Only what the kernel
    has refused by itself bears none.
"""
from libc.errno cimport (
    ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENODEV, ENOMEM, EPROTO, ETIMEDOUT, errno)
from libc.stdint cimport int64_t, uint8_t, uint32_t

from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_FAILED, FABRIC_LOST, FABRIC_OK
from pyrdv.fabrics.verbs.admission cimport count_stranger
from pyrdv.fabrics.verbs.handshake cimport (
    REJECT_ALREADY, REJECT_GONE, REJECT_MTU, REJECT_NONE, REJECT_RESOURCES, REJECT_RIVAL,
    REJECT_STRANGER, REJECT_VERSION, hello_fill, hello_t, nonce_new, reject_fill, reject_read,
    reject_t, reply_check, reply_fill, reply_t, request_check, request_fill, request_t)
from pyrdv.fabrics.verbs.lacks cimport (
    accept_lacks, asked_for, await_request, connect_lacks, idle, is_lack, lacks_nothing)
from pyrdv.fabrics.verbs.librdmacm cimport (
    RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
    RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED,
    RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_UNREACHABLE,
    RDMA_PS_TCP, rdma_cm_id, rdma_conn_param, sockaddr)
from pyrdv.fabrics.verbs.link cimport (
    link_equip, link_free, link_new, link_provide, link_rehearse, link_strip, link_up,
    links_settle, now_ns)
from pyrdv.fabrics.verbs.posting cimport control_send
from pyrdv.fabrics.verbs.queue_pair cimport qp_destroy
from pyrdv.fabrics.verbs.requesting cimport parameters, request_send
from pyrdv.fabrics.verbs.state cimport (
    FAIL_DEVICE, FAIL_DISCONNECTED, FAIL_NONE, FAIL_REFUSED, FAIL_SILENT, KIND_HELLO, LACK_ID,
    LACK_LINK, LINK_ACCEPTED, LINK_CONNECTING, LINK_DOWN, LINK_NEW, LINK_RESOLVING, LINK_UP,
    link_t, peer_t, verbs_t)


cdef enum:
    RESOLVE_MS = 2000               # for an address, and for a route
    ANSWER_PATIENCE = 12            # peer timeouts that a request may stay unanswered
    RETRY_NS = 50_000_000           # between two rounds over the addresses
    LACKING_NS = 100_000_000        # until one is repeated that the peer had no room for
    RIVAL_NS = 500_000_000          # until an attempt that was refused for the other's is repeated
    DEAF_NS = 500_000_000           # for a peer whose kernel says that nobody listens
    NOBODY_LISTENS = 8              # reason in an InfiniBand refusal: no such service
    NEVER_BIT = 62                  # of a deadline that never comes


cdef inline void note(verbs_t *f, uint32_t peer, int failure, int detail) noexcept nogil:
    if f.peers[peer].failure == FAIL_NONE:
        f.peers[peer].failure = <uint8_t> failure
        f.peers[peer].wc_status = detail


cdef void leave(verbs_t *f, link_t *link) noexcept nogil:
    """Have done with a link that is not up, without waiting (J5)."""
    if link.iwarp and link.state == LINK_CONNECTING:
        f.peers[link.peer].link = NULL
        link.deadline = <int64_t> 1 << NEVER_BIT
    else:
        link_free(f, link)


cdef void join_fail(verbs_t *f, link_t *link, int failure, int detail) noexcept nogil:
    note(f, link.peer, failure, detail)
    leave(f, link)


cdef void negotiated(verbs_t *f, link_t *link, const news_t *news) noexcept nogil:
    # Both sides ask for and grant the same, so the smaller of all is safe for both.
    link.qp.reads_max = max(<uint32_t> 1, min(
        f.reads_init_max, <uint32_t> news.initiator_depth, <uint32_t> news.responder_resources))


# The active side ------------------------------------------------------------

cdef int join_start(verbs_t *f, uint32_t peer) noexcept nogil:
    cdef peer_t *p = &f.peers[peer]
    cdef link_t *link
    if f.device_gone or p.address == NULL:
        f.base.error = ENODEV if f.device_gone else EHOSTUNREACH
        note(f, peer, FAIL_DEVICE if f.device_gone else FAIL_REFUSED, f.base.error)
        return FABRIC_LOST
    if (<routes_t *> p.address).count == 0:
        f.base.error = EHOSTUNREACH
        note(f, peer, FAIL_REFUSED, EHOSTUNREACH)
        return FABRIC_LOST
    link = link_new(f, peer)
    if link == NULL:
        connect_lacks(f, peer, NULL, LACK_LINK << 16 | f.base.error)
        return FABRIC_FAILED
    p.link = link
    return join_again(f, peer)


cdef int join_again(verbs_t *f, uint32_t peer) noexcept nogil:
    cdef peer_t *p = &f.peers[peer]
    cdef link_t *link = p.link
    cdef int problem
    f.base.calm = 0
    if not link.active:
        link.active = 1
        link.heard_at = now_ns() + f.peer_timeout
    if link.qp.id != NULL:
        route_found(f, link)
    else:
        # A queue pair was refused: the first try of a new id would not notice.
        problem = link_rehearse(f, link) if link.lack else link_provide(f, link)
        if problem:
            connect_lacks(f, peer, link, problem)
        else:
            attempt(f, link)
    if p.link == NULL:
        return FABRIC_LOST
    return FABRIC_FAILED if p.link.lack else FABRIC_AGAIN


cdef void attempt(verbs_t *f, link_t *link) noexcept nogil:
    """Try the pair of addresses `candidate`."""
    cdef routes_t *routes = <routes_t *> f.peers[link.peer].address
    cdef route_t *route = &routes.route[link.candidate]
    if f.lib.rdma_create_id(f.events, &link.qp.id, &link.qp, RDMA_PS_TCP):
        link.qp.id = NULL
        connect_lacks(f, link.peer, link, LACK_ID << 16 | (errno if errno else ENOMEM))
        return
    enough(f, link)
    link.state = LINK_RESOLVING
    link.deadline = now_ns() + <int64_t> 2 * RESOLVE_MS * 1000000
    if f.lib.rdma_resolve_addr(link.qp.id, <sockaddr *> &route.source, <sockaddr *> &route.target,
                               RESOLVE_MS):
        step_failed(f, link, errno)


cdef void enough(verbs_t *f, link_t *link) noexcept nogil:
    """If it lacked something, it has that now, and as much time as at first."""
    if link.lack:
        link.heard_at = now_ns() + f.peer_timeout * (ANSWER_PATIENCE if link.ending else 1)
    lacks_nothing(f, link)


cdef void step_failed(verbs_t *f, link_t *link, int error) noexcept nogil:
    """The connection manager refuses a step: for want of something here, or of a way."""
    if is_lack(error):
        link_strip(f, link)
        link.state = LINK_NEW
        connect_lacks(f, link.peer, link, LACK_ID << 16 | error)
    else:
        attempt_failed(f, link, error)


cdef void attempt_failed(verbs_t *f, link_t *link, int error) noexcept nogil:
    """The next pair of addresses, or the first again after a while (J3)."""
    cdef int64_t now = now_ns()
    link_strip(f, link)
    if error == ECONNREFUSED or error == ECONNRESET:
        # Its kernel said so: nobody listens there any more.
        link.heard_at = min(link.heard_at, now + DEAF_NS)
    link.wc_status = error
    link.state = LINK_NEW
    link.deadline = now
    link.candidate += 1
    if link.candidate >= (<routes_t *> f.peers[link.peer].address).count:
        link.candidate = 0
        link.deadline = now + RETRY_NS


cdef void route_found(verbs_t *f, link_t *link) noexcept nogil:
    """Equip the link and send the request."""
    cdef rdma_conn_param parameter
    cdef request_t request
    cdef int64_t now = now_ns()
    cdef int problem = link_equip(f, link)
    if problem:
        if link.qp.id.qp != NULL:
            link_strip(f, link)
            link.state = LINK_NEW
        connect_lacks(f, link.peer, link, problem)
        return
    enough(f, link)
    link.nonce = nonce_new()
    request_fill(f, link, &request)
    parameters(f, link.qp.id, &parameter, &request, sizeof(request))
    if request_send(f, link, &parameter):
        step_failed(f, link, errno)
        return
    link.state = LINK_CONNECTING
    link.deadline = now + f.peer_timeout
    if not link.ending:
        # The first request: from now on the peer may simply be busy.
        link.ending = 1
        link.heard_at = now + ANSWER_PATIENCE * f.peer_timeout


cdef void answered(verbs_t *f, link_t *link, const news_t *news) noexcept nogil:
    """The peer accepted: check it, say HELLO (V2, H1)."""
    cdef hello_t hello
    cdef int reason = reply_check(f, link, news.data, news.length)
    if reason != REJECT_NONE:
        f.counters.refused += 1
        join_fail(f, link, FAIL_REFUSED, reason << 16 | EPROTO)
        return
    link.ending = 0
    negotiated(f, link, news)
    hello_fill(f, link, &hello)
    if control_send(f, link, KIND_HELLO, &hello, sizeof(hello)) != FABRIC_OK:
        join_fail(f, link, FAIL_DISCONNECTED, ECONNRESET)
        return
    link_up(f, link)


cdef void turned_down(verbs_t *f, link_t *link, const news_t *news) noexcept nogil:
    cdef reject_t reject
    if reject_read(news.data, news.length, &reject):
        if reject.reason == REJECT_RIVAL or reject.reason == REJECT_MTU:
            # The other's request is on its way; ours is repeated in case it is not.
            link_strip(f, link)
            link.state = LINK_NEW
            link.deadline = now_ns() + RIVAL_NS
        elif reject.reason == REJECT_RESOURCES:
            # It lives, and takes the request once it has what it lacks (R3).
            f.peers[link.peer].said = <int> (reject.detail & 0xFFFF) or ENOMEM
            link_strip(f, link)
            link.state = LINK_NEW
            link.deadline = now_ns() + LACKING_NS
            link.heard_at = link.deadline + ANSWER_PATIENCE * f.peer_timeout
        elif reject.reason == REJECT_ALREADY or reject.reason == REJECT_GONE:
            join_fail(f, link, FAIL_DISCONNECTED, reject.reason << 16)
        elif reject.reason == REJECT_VERSION:
            join_fail(f, link, FAIL_REFUSED, REJECT_VERSION << 16 | reject.version & 0xFFFF)
        else:
            join_fail(f, link, FAIL_REFUSED, reject.reason << 16 | reject.detail & 0xFFFF)
        return
    if news.status == NOBODY_LISTENS:
        attempt_failed(f, link, ECONNREFUSED)
    elif f.iwarp and news.status == -ECONNREFUSED:
        # A full queue of requests says no other than a closed one (A3): no haste.
        link.heard_at = min(link.heard_at, now_ns() + f.peer_timeout)
        attempt_failed(f, link, EPROTO)
        link.wc_status = ECONNREFUSED
    else:
        attempt_failed(f, link, -news.status if news.status < 0 else EPROTO)


cdef inline bint over(int event) noexcept nogil:
    """Whether nothing comes of a request, or of its acceptance, after this event."""
    return (event == RDMA_CM_EVENT_REJECTED or event == RDMA_CM_EVENT_UNREACHABLE
            or event == RDMA_CM_EVENT_CONNECT_ERROR or event == RDMA_CM_EVENT_DISCONNECTED)


cdef void join_event(verbs_t *f, link_t *link, const news_t *news) noexcept nogil:
    cdef int event = news.event
    if f.peers[link.peer].link != link:
        if event == RDMA_CM_EVENT_ESTABLISHED or over(event):
            link_free(f, link)      # an orphan (J5)
    elif link.state == LINK_ACCEPTED:
        if event == RDMA_CM_EVENT_DISCONNECTED:
            # Its HELLO, and more, may be here already.
            links_settle(f)
        if link.state == LINK_ACCEPTED and over(event):
            link_free(f, link)
    elif event == RDMA_CM_EVENT_ADDR_RESOLVED:
        if f.lib.rdma_resolve_route(link.qp.id, RESOLVE_MS):
            step_failed(f, link, errno)
    elif event == RDMA_CM_EVENT_ROUTE_RESOLVED:
        if link.qp.id.verbs != f.context:
            attempt_failed(f, link, ENODEV)
        else:
            route_found(f, link)
    elif event == RDMA_CM_EVENT_ESTABLISHED:
        answered(f, link, news)
    elif event == RDMA_CM_EVENT_REJECTED:
        turned_down(f, link, news)
    elif event == RDMA_CM_EVENT_ADDR_ERROR or event == RDMA_CM_EVENT_ROUTE_ERROR or over(event):
        if event == RDMA_CM_EVENT_ADDR_ERROR:
            # Its machine does not answer: no more patience than for silence.
            link.heard_at = min(link.heard_at, now_ns() + f.peer_timeout)
        attempt_failed(f, link, -news.status if news.status < 0 else EHOSTUNREACH)


cdef void torn_down(verbs_t *f, link_t *link) noexcept nogil:
    """The kernel ends a connection before the event that says so: whoever asked asks again."""
    if link.active:
        link.failure = FAIL_NONE
        attempt_failed(f, link, EPROTO)
    else:
        link_free(f, link)


cdef bint join_look(verbs_t *f, link_t *link, int64_t now) noexcept nogil:
    if link.failure != FAIL_NONE:
        torn_down(f, link)
        return True
    if idle(link) and not link.active:
        return await_request(f, link, now)
    if link.lack and asked_for(f, link, now):
        return join_again(f, link.peer) != FABRIC_FAILED
    if link.state == LINK_ACCEPTED:
        # Its HELLO must not wait for a poll.
        links_settle(f)
        if link.state == LINK_UP:
            return True
    if now < link.deadline:
        return False
    if link.lack:
        return join_again(f, link.peer) != FABRIC_FAILED
    if link.state == LINK_ACCEPTED:
        f.counters.refused += 1
        link_free(f, link)
    elif now >= link.heard_at:
        if link.state == LINK_CONNECTING:
            join_fail(f, link, FAIL_SILENT,
                      <int> (ANSWER_PATIENCE * (f.peer_timeout // 1000000)))
        else:
            join_fail(f, link, FAIL_REFUSED, link.wc_status if link.wc_status else ETIMEDOUT)
    elif link.state == LINK_NEW:
        attempt(f, link)
    elif link.iwarp and link.state == LINK_CONNECTING:
        link.deadline = link.heard_at   # J5
    else:
        attempt_failed(f, link, ETIMEDOUT)
    return True


# The passive side -----------------------------------------------------------

cdef void refuse(verbs_t *f, rdma_cm_id *ident, int reason, uint32_t detail) noexcept nogil:
    cdef reject_t reject
    f.counters.refused += 1
    if (reason == REJECT_STRANGER or reason == REJECT_VERSION or reason == REJECT_ALREADY
            or reason == REJECT_GONE):
        count_stranger(f)
    reject_fill(reason, detail, &reject)
    f.lib.rdma_reject(ident, &reject, sizeof(reject))
    f.lib.rdma_destroy_id(ident)


cdef bint larger_mtu(const verbs_t *f, const request_t *request) noexcept nogil:
    """Whether this side has to connect instead, and can (J7)."""
    cdef const peer_t *p = &f.peers[request.source]
    return (request.mtu > f.mtu and p.address != NULL
            and (<const routes_t *> p.address).count > 0)


cdef int verdict(verbs_t *f, const request_t *request) noexcept nogil:
    """Whether the peer may connect now (J1, J2, J7)."""
    cdef peer_t *p = &f.peers[request.source]
    if p.link != NULL and p.link.state == LINK_ACCEPTED:
        links_settle(f)
    if f.device_gone or p.ended or (p.failure and p.link == NULL):
        return REJECT_GONE
    if p.link == NULL:
        return REJECT_MTU if larger_mtu(f, request) else REJECT_NONE
    if p.link.state == LINK_ACCEPTED:
        return REJECT_ALREADY if p.link.peer_nonce == request.nonce else REJECT_NONE
    if p.link.state == LINK_UP or p.link.state == LINK_DOWN:
        return REJECT_ALREADY
    if larger_mtu(f, request):
        return REJECT_MTU
    if idle(p.link):
        return REJECT_NONE
    if request.mtu < f.mtu or request.source < f.base.rank or p.link.state == LINK_NEW:
        return REJECT_NONE
    return REJECT_RIVAL


cdef int connect_instead(verbs_t *f, uint32_t peer) noexcept nogil:
    """This side connects, unless it does already (J7); the reason to refuse the peer's request."""
    cdef peer_t *p = &f.peers[peer]
    cdef int status = FABRIC_AGAIN
    if p.link == NULL:
        status = join_start(f, peer)
    elif idle(p.link):
        status = join_again(f, peer)
    if status == FABRIC_FAILED:
        accept_lacks(f, peer, p.link, p.connect_lack)
        return REJECT_RESOURCES
    return REJECT_GONE if status == FABRIC_LOST else REJECT_MTU


cdef void join_request(verbs_t *f, const news_t *news) noexcept nogil:
    cdef request_t request
    cdef link_t *link
    cdef int problem
    cdef int reason = request_check(f, news.data, news.length, &request)
    if reason == REJECT_NONE and news.id.verbs != f.context:
        reason = REJECT_STRANGER
    if reason == REJECT_NONE:
        reason = verdict(f, &request)
    if reason == REJECT_MTU:
        reason = connect_instead(f, request.source)
    if reason != REJECT_NONE:
        refuse(f, news.id, reason, f.peers[request.source].accept_lack & 0xFFFF
               if reason == REJECT_RESOURCES else 0)
        return
    link = link_for(f, request.source)
    if link == NULL:
        accept_lacks(f, request.source, NULL, LACK_LINK << 16 | f.base.error)
        refuse(f, news.id, REJECT_RESOURCES, f.base.error)
        return
    link.qp.id = news.id
    link.qp.id.context = &link.qp
    link.nonce = nonce_new()
    link.peer_nonce = request.nonce
    problem = link_equip(f, link)
    if problem == 0 and f.lib.rdma_migrate_id(news.id, f.events):
        problem = LACK_ID << 16 | (errno if errno else ENOMEM)
    if problem == 0:
        problem = accept(f, link, news)
    if problem:
        qp_destroy(f, &link.qp)
        link.qp.id = NULL
        accept_lacks(f, request.source, link, problem)
        refuse(f, news.id, REJECT_RESOURCES, problem & 0xFFFF)


cdef link_t *link_for(verbs_t *f, uint32_t peer) noexcept nogil:
    """The link that takes the peer's request: what an idle one has got serves it, too."""
    cdef peer_t *p = &f.peers[peer]
    if p.link != NULL and idle(p.link):
        link_strip(f, p.link)
        p.link.state = LINK_NEW
        p.link.active = 0
        p.link.ending = 0
        return p.link
    if p.link != NULL:
        if p.link.state == LINK_ACCEPTED:
            count_stranger(f)       # A4
        leave(f, p.link)
    p.link = link_new(f, peer)
    return p.link


cdef int accept(verbs_t *f, link_t *link, const news_t *news) noexcept nogil:
    """Accept the request of an equipped link; 0, or what is lacking."""
    cdef rdma_conn_param parameter
    cdef reply_t reply
    cdef int problem
    cdef int64_t now = now_ns()
    negotiated(f, link, news)
    reply_fill(f, link, &reply)
    parameters(f, link.qp.id, &parameter, &reply, sizeof(reply))
    parameter.responder_resources = <uint8_t> min(f.reads_max, <uint32_t> news.responder_resources)
    parameter.initiator_depth = <uint8_t> link.qp.reads_max
    if f.lib.rdma_accept(link.qp.id, &parameter):
        problem = errno
        if is_lack(problem):
            return LACK_ID << 16 | problem
        # The other side has given up meanwhile, or will notice.
        link_free(f, link)
        return 0
    lacks_nothing(f, link)
    link.state = LINK_ACCEPTED
    link.deadline = now + f.peer_timeout
    link.heard_at = now
    return 0
