# cython: language_level=3
"""Python owner of one verbs fabric: construction, addresses, start, texts of failures."""
import os
import time

from ipaddress import ip_address
from socket import AF_INET, AF_INET6

from libc.errno cimport ENODEV, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from pyrdv.fabrics.contract cimport (
    CAP_BEHIND, CAP_OPEN_SINK, CAP_PINS, CAP_SINGLE_COPY, FABRIC_OK, LACK_CONNECT, Fabric,
    fabric_ops)
from pyrdv.fabrics.verbs.admission cimport door_open
from pyrdv.fabrics.verbs.connection cimport (
    connection_abandon, connection_close, connection_farewell, connection_refused, connection_wait,
    verbs_connect, verbs_disconnect)
from pyrdv.fabrics.verbs.datapath cimport drain, verbs_poll, verbs_release
from pyrdv.fabrics.verbs.joining cimport ROUTES, routes_t
from pyrdv.fabrics.verbs.libibverbs cimport ibv_device_attr, ibv_port_attr, ibv_wc_status
from pyrdv.fabrics.verbs.library cimport verbs_table
from pyrdv.fabrics.verbs.librdmacm cimport sockaddr_storage
from pyrdv.fabrics.verbs.memory cimport verbs_deregister, verbs_flush, verbs_register
from pyrdv.fabrics.verbs.opening cimport connection_listen, connection_open, connection_prepare
from pyrdv.fabrics.verbs.sending cimport verbs_post
from pyrdv.fabrics.verbs.sleeping cimport (
    verbs_arm, verbs_disarm, verbs_maintain, verbs_signals, verbs_watch)
from pyrdv.fabrics.verbs.state cimport (
    FAIL_NONE, FAIL_TRANSPORT, LINK_UP, PACKET_ROOM, link_t, peer_t, qp_t, queue_t, tag_t)

from pyrdv.fabrics.verbs import library
from pyrdv.fabrics.verbs.addresses import pack_address, parse_address
from pyrdv.fabrics.verbs.device import choose
from pyrdv.fabrics.verbs.gids import match, mismatch
from pyrdv.fabrics.verbs.handshake import job_mark, pair_key
from pyrdv.fabrics.verbs.reasons import explain, lack, late, said
from pyrdv.shortage import open_files


cdef extern from "<unistd.h>" nogil:
    int getpid()

cdef extern from "<netinet/in.h>" nogil:
    struct in_addr:
        uint32_t s_addr
    struct sockaddr_in:
        unsigned short sin_family
        uint16_t sin_port
        in_addr sin_addr
    struct in6_addr:
        uint8_t s6_addr[16]
    struct sockaddr_in6:
        unsigned short sin6_family
        uint16_t sin6_port
        in6_addr sin6_addr
        uint32_t sin6_scope_id


cdef enum:
    EAGER_MAX = 16384
    TRANSFER_MAX = 1 << 22      # so that a ping behind a transfer is not late (N5)
    FEW_RANKS = 8               # up to which a link has many receives
    AHEAD = 4                   # steps of connect_all under way at once

cdef fabric_ops OPS  # constant after import
OPS.post = verbs_post
OPS.poll = verbs_poll
OPS.release = verbs_release
OPS.register_memory = verbs_register
OPS.deregister = verbs_deregister
OPS.flush = verbs_flush
OPS.connect = verbs_connect
OPS.disconnect = verbs_disconnect
OPS.maintain = verbs_maintain
OPS.arm = verbs_arm
OPS.disarm = verbs_disarm
OPS.watch = verbs_watch
OPS.signals = verbs_signals

cdef dict MODES = {"off": 0, "auto": 1, "on": 2}


cdef socket_address(candidate, bytes port, scope, sockaddr_storage *out):
    # `port` is in network order, as it is in the structures.
    cdef sockaddr_in *four = <sockaddr_in *> out
    cdef sockaddr_in6 *six = <sockaddr_in6 *> out
    cdef bytes packed = ip_address(candidate.address).packed
    memset(out, 0, sizeof(sockaddr_storage))
    if candidate.family == 4:
        four.sin_family = AF_INET
        memcpy(&four.sin_port, <const char *> port, 2)
        memcpy(&four.sin_addr, <const char *> packed, 4)
    else:
        six.sin6_family = AF_INET6
        memcpy(&six.sin6_port, <const char *> port, 2)
        memcpy(&six.sin6_addr, <const char *> packed, 16)
        six.sin6_scope_id = scope


cdef class VerbsFabric(Fabric):
    """Messages over RDMA verbs: InfiniBand, RoCE and iWARP devices.

    Parameters
    ----------
    rank, size : int
        World rank of this end and number of ranks in the job.
    token : bytes
        Secret of the job; connections from processes without it are refused.
    device : str
        Name of the device; empty to choose.
    port : int
        Its port, from 1; 0 to choose.
    gid : int
        Index of the GID to use; -1 to choose.
    ring : {'auto', 'on', 'off'}
        Whether small messages may be written into memory that the receiver
        polls: where the device promises the order of bytes; everywhere, with a
        checksum where it does not; never.
    peer_timeout : float
        Seconds after which a peer that does not answer is lost.

    Raises
    ------
    ValueError
        For a rank outside ``0 <= rank < size``, an unknown `ring`, a timeout
        that is not positive, or a device, port or GID that is not there.
    OSError
        If libraries, devices, usable addresses or resources of the system are missing.
    """

    def __cinit__(self, rank, size, bytes token, *, device="", port=0, gid=-1, ring="auto",
                  peer_timeout=5.0):
        self.state.timer_fd = -1
        self.state.kick_fd = -1
        self.state.base.wake_fd = -1
        self.handle = &self.state.base
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} is not in 0..{size - 1}: give 0 <= rank < size")
        if ring not in MODES:
            raise ValueError(f"ring={ring!r}: use 'auto', 'on' or 'off'")
        if not 0.1 <= peer_timeout <= 86400:
            raise ValueError(f"a peer timeout of {peer_timeout} s: give 0.1 to 86400")
        self.state.pid = os.getpid()
        self.state.ring_mode = MODES[ring]
        self.state.peer_timeout = int(peer_timeout * 1e9)
        self.state.ping_every = self.state.peer_timeout // 4
        self.state.base.ops = &OPS
        self.state.base.rank = rank
        self.state.base.size = size
        self.state.base.packet_max = PACKET_ROOM
        self.state.base.eager_max = EAGER_MAX
        self.state.base.capabilities = CAP_SINGLE_COPY | CAP_PINS | CAP_BEHIND
        self.state.recv_slots = 32 if size <= FEW_RANKS else 16
        self.own, self.ports, self.texts = [], {}, {}
        library.load()
        self.state.lib = verbs_table()
        self.choice = choose(device, port, gid)
        self._reserve()
        self._derive(token)
        self._listen()
        self._limits()
        if self.state.iwarp:
            self.state.base.capabilities |= CAP_OPEN_SINK
        self.open = True

    cdef _reserve(self):
        # Everything that a step may need, so that no step allocates (R1).
        cdef uint32_t size = self.state.base.size
        cdef uint32_t room = 2 * size + 16
        if room > 0xFFFF:
            raise ValueError(f"a verbs fabric of {size} ranks: {(0xFFFF - 16) // 2} are possible")
        self.state.link_room = room
        self.state.peers = <peer_t *> calloc(size, sizeof(peer_t))
        self.state.links = <link_t **> calloc(room, sizeof(link_t *))
        self.state.tags = <tag_t *> calloc(room, sizeof(tag_t))
        self.state.base.lacks = <uint8_t *> calloc(size, sizeof(uint8_t))
        self.state.queues = <queue_t *> calloc(room, sizeof(queue_t))
        self.state.busy = <link_t **> calloc(room, sizeof(link_t *))
        self.state.needy = <link_t **> calloc(room, sizeof(link_t *))
        self.state.granted = <link_t **> calloc(room, sizeof(link_t *))
        if (self.state.peers == NULL or self.state.links == NULL or self.state.tags == NULL
                or self.state.queues == NULL or self.state.busy == NULL
                or self.state.needy == NULL or self.state.granted == NULL
                or self.state.base.lacks == NULL):
            raise MemoryError(f"no memory for a verbs fabric of {size} ranks")

    cdef _derive(self, bytes token):
        # One key per pair of ranks; the own entry tells jobs apart (H5).
        cdef uint32_t peer
        cdef bytes key
        for peer in range(self.state.base.size):
            key = pair_key(token, self.rank, peer) if peer != self.rank else job_mark(token)
            memcpy(self.state.peers[peer].key, <const uint8_t *> key, 16)

    cdef _listen(self):
        cdef sockaddr_storage where
        cdef uint16_t port = 0
        cdef bytes device = self.choice.device.encode()
        cdef bytes raw
        if connection_open(&self.state) or door_open(&self.state):
            raise OSError(errno, f"verbs fabric of rank {self.rank}: {os.strerror(errno)} while "
                          "opening the RDMA connection manager; it needs the module rdma_ucm "
                          f"(/dev/infiniband/rdma_cm), and {open_files()}")
        problems = []
        for candidate in self.choice.candidates:
            socket_address(candidate, b"\0\0", candidate.scope, &where)
            if connection_listen(&self.state, device, &where, &port):
                problems.append(self._refusal(candidate, errno))
                continue
            raw = (<char *> &port)[:2]
            self.own.append(candidate)
            self.ports[candidate] = raw
        if not self.own:
            raise OSError(errno, f"verbs fabric of rank {self.rank} cannot listen on "
                          f"{self.device}: {'; '.join(problems)}")
        if connection_prepare(&self.state):
            raise OSError(errno, f"verbs fabric of rank {self.rank}: {os.strerror(errno)} while "
                          f"taking {self.device} into use; {open_files()}")

    def _refusal(self, candidate, error):
        if error == ENODEV:
            return (f"{candidate.address} leads to another RDMA device than {self.choice.device}, "
                    "for both are at one interface and the connection manager takes the first: "
                    "choose that one, or remove it (rdma link delete)")
        return f"{candidate.address}: {os.strerror(error)}"

    cdef _limits(self):
        cdef ibv_port_attr attr
        cdef uint64_t most = TRANSFER_MAX
        memset(&attr, 0, sizeof(attr))
        if self.state.lib.ibv_query_port(self.state.context, self.choice.port, <void *> &attr) == 0:
            if 0 < attr.max_msg_sz < most:
                most = attr.max_msg_sz
            if not self.state.iwarp:
                self.state.mtu = attr.active_mtu
        self.state.base.transfer_max = most

    def __dealloc__(self):
        cdef uint32_t i
        if self.state.peers != NULL:
            self._end()
            for i in range(self.state.base.size):
                free(self.state.peers[i].address)
        free(self.state.peers)
        free(self.state.links)
        free(self.state.tags)
        free(self.state.queues)
        free(self.state.busy)
        free(self.state.needy)
        free(self.state.granted)
        free(self.state.base.lacks)

    cdef _end(self):
        # Also when the interpreter ends, and module `os` may be gone.
        if self.state.pid == getpid():
            with nogil:
                connection_close(&self.state)
        else:
            connection_abandon(&self.state)

    @property
    def address(self):
        """What other ranks need to connect to this one, as bytes."""
        return pack_address(self.own, [self.ports[one] for one in self.own])

    @property
    def device(self):
        """Device and port in use, such as ``rxe0:1``."""
        return f"{self.choice.device}:{self.choice.port}"

    @property
    def kind(self):
        """``rxe`` or ``siw`` for soft devices, else ``iwarp`` or ``verbs``."""
        if self.state.soft_fence:
            return "siw"
        if self.state.frail_fence:
            return "rxe"
        return "iwarp" if self.state.iwarp else "verbs"

    @property
    def explanation(self):
        """Lines that say what was chosen and why."""
        return list(self.choice.explanation)

    def set_peers(self, addresses):
        """Tell where the other ranks are.

        Parameters
        ----------
        addresses : sequence of bytes or None
            ``address`` of each rank; None for a rank that another fabric
            serves.  The own entry is ignored.

        Raises
        ------
        ValueError
            For a wrong number of entries, or an entry that is no address or
            one of another version.
        """
        cdef uint32_t rank
        if len(addresses) != self.size:
            raise ValueError(f"{len(addresses)} addresses for {self.size} ranks: give one per rank")
        for rank in range(self.state.base.size):
            if addresses[rank] is None or rank == self.state.base.rank:
                continue
            candidates, ports = parse_address(rank, addresses[rank])
            pairs = [(left, right) for left, right, _ in match(self.own, candidates)][:ROUTES]
            self.texts[rank] = (", ".join(dict.fromkeys(right.address for _, right in pairs))
                                or mismatch(self.own, candidates))
            free(self.state.peers[rank].address)
            self.state.peers[rank].address = NULL
            self.state.peers[rank].address = self._routes(
                rank, pairs, dict(zip(candidates, ports, strict=True)))

    cdef routes_t *_routes(self, rank, list pairs, dict ports) except NULL:
        cdef routes_t *routes = <routes_t *> calloc(1, sizeof(routes_t))
        if routes == NULL:
            raise MemoryError(f"no memory for the addresses of rank {rank}")
        for left, right in pairs:
            socket_address(left, b"\0\0", left.scope, &routes.route[routes.count].source)
            socket_address(right, ports[right], left.scope, &routes.route[routes.count].target)
            routes.count += 1
        return routes

    def connect_all(self, timeout):
        """Connect to every peer that was given an address, all ranks together.

        No thread accepts: in step k each rank asks rank - k for a connection,
        and accepts that of rank + k meanwhile (Chai, Noronha and Panda, "MPI
        over uDAPL", 2006, threadless connection establishment; each connection
        serves both ways, so half of the steps do).  Up to AHEAD steps are under
        way at once, so that a rank need not wait for one that is late.

        Parameters
        ----------
        timeout : float
            Seconds for all of it.

        Raises
        ------
        TimeoutError
            If some are missing when the time is over.
        OSError
            If one failed.
        """
        cdef uint32_t size = self.state.base.size
        cdef uint32_t rank = self.state.base.rank
        wanted = {peer for peer in range(size)
                  if peer != rank and self.state.peers[<uint32_t> peer].address != NULL}
        lefts = [(rank + size - step) % size for step in range(1, size // 2 + 1)]
        # In the middle step of an even number two ask each other; one of them is enough.
        middle = (rank + size // 2) % size if size % 2 == 0 else rank
        asks = [left for left in lefts if left in wanted and (left != middle or rank < left)]
        end = time.monotonic() + timeout
        while not self._all_up(wanted, asks):
            if time.monotonic() > end:
                raise TimeoutError(late(rank, timeout, {
                    peer: self.state.peers[<uint32_t> peer].said for peer in sorted(wanted)}))

    def _all_up(self, set wanted, list asks):
        """One turn of `connect_all`; takes out of both what is up."""
        cdef int happened
        with nogil:
            happened = drain(&self.state)
        happened += self.handle.ops.maintain(self.handle)
        for peer in asks[:AHEAD]:
            if self.handle.ops.connect(self.handle, peer) < FABRIC_OK:
                raise OSError(self.refusal_text(peer))
        for peer in wanted:
            if connection_refused(&self.state, peer):
                raise OSError(self.refusal_text(peer))
        up = {peer for peer in wanted if self._up(peer)}
        wanted -= up
        asks[:] = [peer for peer in asks if peer not in up]
        if wanted and not happened and not up:
            with nogil:
                connection_wait(&self.state, 1)
        return not wanted

    def _up(self, uint32_t peer):
        cdef link_t *link = self.state.peers[peer].link
        return link != NULL and link.state == LINK_UP

    def failure_text(self, int peer):
        """Why `peer` is lost, in words; empty if nothing is known.

        Parameters
        ----------
        peer : int
            World rank.
        """
        cdef int failure, detail
        cdef link_t *link
        if not 0 <= peer < <int> self.state.base.size:
            raise ValueError(f"rank {peer} is not in 0..{self.size - 1}")
        failure = self.state.peers[peer].failure
        detail = self.state.peers[peer].wc_status
        link = self.state.peers[peer].link
        if failure == FAIL_NONE and link != NULL:
            failure, detail = link.failure, link.wc_status
        if failure == FAIL_NONE:
            return ""
        place = self.texts.get(peer)
        why = explain(failure, detail,
                      self.state.lib.ibv_wc_status_str(<ibv_wc_status> detail).decode()
                      if failure == FAIL_TRANSPORT else "")
        why += said(self.state.peers[peer].said)
        return f"rank {peer}{f' ({place})' if place else ''} is lost: {why} ({self.device})"

    def lack_text(self, int peer, incoming=False):
        """What this process lacks for a connection to `peer`, or `incoming` from it, in words."""
        place = self.texts.get(peer)
        whom = f"rank {peer}{f' ({place})' if place else ''}"
        why = lack(self.state.peers[peer].accept_lack if incoming
                   else self.state.peers[peer].connect_lack, self._figures())
        what = f"take the connection of {whom}" if incoming else f"connect to {whom}"
        return f"rank {self.rank} cannot {what}: {why} ({self.device})"

    def refusal_text(self, int peer):
        """Why `peer` cannot be connected to: it is lost, or this process lacks something."""
        return self.failure_text(peer) or self.lack_text(
            peer, not self.state.base.lacks[peer] & LACK_CONNECT)

    def _figures(self):
        """How much the device allows, by the names of the verbs."""
        cdef ibv_device_attr attr
        memset(&attr, 0, sizeof(attr))
        if self.state.context != NULL:
            self.state.lib.ibv_query_device(self.state.context, &attr)
        return {"max_qp": attr.max_qp, "max_qp_wr": attr.max_qp_wr, "max_cq": attr.max_cq,
                "max_cqe": attr.max_cqe, "max_mr": attr.max_mr}

    def close(self):
        """Take leave of the peers, then give everything back; idempotent.

        What was posted to peers that were disconnected arrives before.  Peers
        that were not told goodbye (``disconnect``) see this end as lost.  In a
        forked child it closes the child's descriptors and tells nobody.
        """
        if not self.open:
            return
        self.open = False
        if self.state.pid == os.getpid():
            with nogil:
                connection_farewell(&self.state)
        self._end()

    def vanish(self):
        """End like a process that is killed: for tests."""
        if self.open:
            self.open = False
            self._end()

    @property
    def joining(self):
        """How many connections are being set up."""
        cdef uint32_t i
        count = 0
        for i in range(self.state.link_room):
            if self.state.links[i] != NULL and self.state.links[i].state < LINK_UP:
                count += 1
        return count

    @property
    def links(self):
        """State of each link, for people who look for what hangs: a list of dicts."""
        cdef uint32_t i
        cdef link_t *link
        cdef qp_t *qp
        found = []
        for i in range(self.state.link_room):
            link = self.state.links[i]
            if link != NULL:
                qp = &link.qp
                found.append({
                    "peer": link.peer, "state": link.state, "failure": link.failure,
                    "posted": qp.sq_head - qp.sq_done, "untold": qp.sq_done - qp.sq_told,
                    "reads": qp.reads, "reads_max": qp.reads_max, "writes": qp.writes,
                    "credits_used": link.sent - link.peer_freed, "owed": link.owed,
                    "slots_used": qp.slot_head - qp.slot_done,
                    "arrived": link.order_tail - link.order_head,
                    "early": link.early_tail - link.early_head,
                    "ring": link.ring_mine, "ring_open": link.ring_open,
                    "pinging": link.pinged_at != 0})
        return found

    @property
    def closed(self):
        """Whether ``close`` was called."""
        return not self.open

    @property
    def counters(self):
        """What this end did so far, a dict of integers."""
        return dict(self.state.counters)
