# cython: language_level=3
"""The Python face of the simulated network: building it, choosing events, faults.

Nothing happens by itself (unless ``auto``): whoever drives the test asks for the
pending events and picks one.  Which events may follow depends on the state alone,
so a program and a list of event ids determine a run.
"""
import errno
import hashlib
import os
import random
import struct
from collections import namedtuple

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from pyrdv.fabrics.contract cimport (
    CAP_BEHIND, CAP_LOCAL, CAP_OPEN_SINK, CAP_ORDERED, CAP_PINS, CAP_SINGLE_COPY, CAP_SOFT,
    FABRIC_OK, HEADER_MAX, WR_READ, Fabric,
)
from pyrdv.instruments.sim.core cimport (
    FAULT_BUSY_REGION, FAULT_LOCAL_KEY, FAULT_POST_CLOSED, FAULT_RELEASE, FAULT_REMOTE_KEY,
    FAULT_REQUEST, FAULT_UNKNOWN_REGION, SIM_CHUNK, SIM_CLOSE, SIM_COMPLETE, SIM_CONNECT,
    SIM_FAULT_LOG, SIM_KINDS, SIM_LOSS, SIM_PACKET, sim_between, sim_channel, sim_fire,
    sim_list, sim_net, sim_packet, sim_pending, sim_rank, sim_ready, sim_setup, sim_teardown,
    sim_transfer,
)
from pyrdv.instruments.sim.datapath cimport fabric_close, sim_operations
from pyrdv.instruments.sim.faults cimport fault_drop, fault_inject, fault_kill

Event = namedtuple("Event", "id kind src dst time text")
Event.__doc__ = """One thing that may happen next.

``id`` is stable: the same event has the same id whatever happens elsewhere.
``kind`` is one of packet, read, write, completion, close, loss, connect;
``time`` is the LogGP estimate in seconds.
"""

NAMES = {SIM_PACKET: "packet", SIM_COMPLETE: "completion", SIM_CLOSE: "close",
         SIM_LOSS: "loss", SIM_CONNECT: "connect"}

FAULT_TEXTS = {
    FAULT_RELEASE: "released more packets than the last poll returned",
    FAULT_POST_CLOSED: "posted after disconnect",
    FAULT_BUSY_REGION: "deregistered a region with a transfer under way",
    FAULT_UNKNOWN_REGION: "deregistered an unknown region",
    FAULT_LOCAL_KEY: "posted a transfer whose local memory is not registered",
    FAULT_REQUEST: "posted a malformed work request",
    FAULT_REMOTE_KEY: "read or wrote remote memory that is not registered for it",
}


@cython.no_gc_clear     # its descriptors are closed last
cdef class Network:
    """Several ranks in one process, joined by a network under a virtual clock.

    Parameters
    ----------
    size : int
        Number of ranks.
    latency, overhead, gap : float
        LogGP's L, o and g in seconds.
    per_byte : float
        LogGP's G: seconds per byte.
    seed : int, optional
        Seed of the generator behind `run_random`.
    slots : int
        Packets in flight or unreleased per ordered pair; more gives AGAIN.
    transfers : int
        READs and WRITEs in flight per ordered pair.
    packet_max, eager_max : int
        Largest packet in bytes; largest payload that is better sent eagerly
        (default: all that fits).
    transfer_max : int
        Largest READ or WRITE in bytes.
    chunk : int
        READs and WRITEs move in pieces of this many bytes, one event each.
    auto : bool
        ``poll`` first lets everything happen that concerns its rank.
    lazy : bool
        Connections come up by an event instead of within ``connect``.
    single_copy : bool
        False: a piece of a READ or WRITE moves only after a turn of the target.
    local : bool
        Claim that the peers run on this host.
    overtaking : bool
        Packets pass one whose fence is still closed, as F1 permits.
    ordered : bool
        Claim that the bytes of a WRITE appear in their order (V8).
    pins : bool
        Claim that registering is slow and worth keeping.
    open_sinks : bool
        Claim that a peer may write into the sink of a READ.
    soft : bool
        Claim that packets are as dear as those of a device in software.

    Notes
    -----
    All engines of a network must run in one thread, outside of signal handlers.
    """

    def __cinit__(self, size, *, double latency=1.5e-6, double overhead=2e-7,
                  double gap=1e-7, double per_byte=1e-10, seed=None, slots=32, transfers=16,
                  packet_max=4096 + HEADER_MAX, eager_max=None, transfer_max=1 << 40,
                  chunk=65536, bint auto=False, bint lazy=False, bint single_copy=True,
                  bint local=False, bint overtaking=False, bint ordered=False, bint pins=False,
                  bint open_sinks=False, bint soft=False):
        cdef uint32_t capabilities = CAP_BEHIND
        cdef uint32_t rank
        if size < 1 or slots < 1 or transfers < 1 or chunk < 1:
            raise ValueError(f"size={size}, slots={slots}, transfers={transfers}, "
                             f"chunk={chunk}: each must be at least 1")
        if packet_max < HEADER_MAX:
            raise ValueError(f"packet_max={packet_max} is below HEADER_MAX={HEADER_MAX}")
        memset(&self.net, 0, sizeof(sim_net))
        self.random = random.Random(seed)
        self.net.size = size
        self.net.slots = slots
        self.net.transfers = transfers
        self.net.chunk = chunk
        self.net.instant = auto
        self.net.lazy = lazy
        self.net.single_copy = single_copy
        self.net.overtaking = overtaking
        self.net.latency = latency
        self.net.overhead = overhead
        self.net.gap = gap
        self.net.per_byte = per_byte
        if single_copy:
            capabilities |= CAP_SINGLE_COPY
        if local:
            capabilities |= CAP_LOCAL
        if ordered:
            capabilities |= CAP_ORDERED
        if pins:
            capabilities |= CAP_PINS
        if open_sinks:
            capabilities |= CAP_OPEN_SINK
        if soft:
            capabilities |= CAP_SOFT
        if eager_max is None:
            eager_max = packet_max - HEADER_MAX
        self.event_limit = size * size * (2 * transfers + SIM_KINDS)
        self.events = <sim_pending *>calloc(self.event_limit, sizeof(sim_pending))
        if (self.events == NULL or
                sim_setup(&self.net, packet_max, eager_max, transfer_max, capabilities)):
            raise MemoryError(f"no memory for a network of {size} ranks")
        self.descriptors = tuple([os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                                  for _ in range(size)])
        for rank in range(self.net.size):
            self.net.ranks[rank].fabric.wake_fd = self.descriptors[rank]
            self.net.ranks[rank].fabric.ops = sim_operations()

    def __dealloc__(self):
        sim_teardown(&self.net)
        free(self.events)
        for descriptor in self.descriptors or ():
            os.close(descriptor)

    cdef int check(self, rank) except -1:
        if not 0 <= rank < self.net.size:
            raise ValueError(f"rank {rank} is not in 0..{self.net.size - 1}")
        return 0

    def fabric(self, rank):
        """The end of the network that belongs to `rank`."""
        cdef SimFabric end = SimFabric.__new__(SimFabric)
        self.check(rank)
        end.network = self
        end.handle = &self.net.ranks[<uint32_t>rank].fabric
        return end

    # ------------------------------------------------------------- events

    cdef int refresh(self) except -1:
        return sim_list(&self.net, self.events, self.event_limit)

    cdef int fire(self, int index) except -1:
        cdef sim_pending *event = &self.events[index]
        sim_fire(&self.net, event.kind, event.src, event.dst, event.slot)
        return 0

    def _identify(self, kind, src, dst, slot):
        return ((kind * self.net.size + src) * self.net.size + dst) * self.net.transfers + slot

    cdef object describe(self, sim_pending *event):
        cdef sim_channel *ch = sim_between(&self.net, event.src, event.dst)
        cdef sim_transfer *tr
        cdef sim_packet *packet
        name = NAMES.get(event.kind)
        text = ""
        if event.kind == SIM_PACKET:
            packet = &ch.packets[ch.delivered % self.net.slots]
            text = f"#{ch.delivered} {packet.length} bytes"
        elif event.kind == SIM_CHUNK or event.kind == SIM_COMPLETE:
            tr = &ch.transfers[event.slot]
            kind = "read" if tr.opcode == WR_READ else "write"
            name = name or kind
            text = f"{kind} {tr.id:#x}: {tr.offset} of {tr.length} bytes"
        return Event(self._identify(event.kind, event.src, event.dst, event.slot), name,
                     event.src, event.dst, event.time, text)

    def pending(self):
        """All events that may happen next, in the order of their ids' channels.

        Returns
        -------
        list of Event
        """
        cdef int i
        return [self.describe(&self.events[i]) for i in range(self.refresh())]

    def deliver(self, event_id):
        """Let one pending event happen.

        Raises
        ------
        ValueError
            `event_id` is not pending now.
        """
        cdef double time
        cdef uint32_t kind, src, dst, slot
        rest, slot = divmod(event_id, self.net.transfers)
        rest, dst = divmod(rest, self.net.size)
        kind, src = divmod(rest, self.net.size)
        if not 0 <= kind < SIM_KINDS or not sim_ready(&self.net, kind, src, dst, slot, &time):
            raise ValueError(f"event {event_id} is not pending; ask pending() again")
        sim_fire(&self.net, kind, src, dst, slot)

    def run_next(self):
        """Let the event with the smallest virtual time happen.

        Returns
        -------
        bool
            False if nothing was pending.
        """
        cdef int i
        cdef int best = 0
        cdef int count = self.refresh()
        for i in range(1, count):
            if self.events[i].time < self.events[best].time:
                best = i
        if count:
            self.fire(best)
        return count > 0

    def run_random(self, rng=None):
        """Let an event happen that `rng` (default: the seeded generator) chooses.

        Returns
        -------
        bool
            False if nothing was pending.
        """
        cdef int count = self.refresh()
        if count:
            self.fire((rng or self.random).randrange(count))
        return count > 0

    @property
    def now(self):
        """Virtual time in seconds."""
        return self.net.now

    def advance(self, double seconds):
        """Move the clock, as if every rank computed for that long."""
        self.net.now += seconds

    # ------------------------------------------------------------- faults

    def kill(self, rank, *, flush=False):
        """`rank` dies; the others notice it by loss events.

        Parameters
        ----------
        rank : int
        flush : bool
            Its packets in flight still arrive, before the loss.
        """
        self.check(rank)
        fault_kill(&self.net, rank, flush)

    def drop(self, a, b, *, flush=False):
        """The connection between `a` and `b` breaks; both notice by loss events."""
        self.check(a)
        self.check(b)
        fault_drop(&self.net, a, b, flush)

    def hold(self, src, dst, held=True):
        """Stop (or, with ``held=False``, resume) what `src` sends to `dst`."""
        self.check(src)
        self.check(dst)
        sim_between(&self.net, src, dst).held = held

    def limit(self, rank, nbytes):
        """Have `rank` register no more than `nbytes` at a time; 0 takes the limit away."""
        self.check(rank)
        self.net.ranks[<uint32_t>rank].lock_limit = nbytes

    def scramble(self, bint scrambled=True):
        """Have the pieces of WRITEs come in another order, whatever the network claims."""
        self.net.scrambled = scrambled

    def delay(self, src, dst, double seconds):
        """Extra latency for whatever `src` posts to `dst` from now on."""
        self.check(src)
        self.check(dst)
        sim_between(&self.net, src, dst).delay = seconds

    def inject(self, src, dst, bytes data):
        """Put a packet in flight that `src` never posted.

        Raises
        ------
        ValueError
            Longer than a packet.
        BlockingIOError
            Not connected, or all slots are in use.
        """
        self.check(src)
        self.check(dst)
        if len(data) > self.net.ranks[0].fabric.packet_max:
            raise ValueError(f"{len(data)} bytes exceed the packet limit "
                             f"{self.net.ranks[0].fabric.packet_max}")
        if fault_inject(&self.net, src, dst, data, <uint32_t>len(data)) != FABRIC_OK:
            raise BlockingIOError(errno.EAGAIN, f"no slot from {src} to {dst}")

    @property
    def faults(self):
        """What the engines did against the contract: (text, rank, peer) each."""
        cdef uint64_t i
        return [(FAULT_TEXTS[self.net.faults[i].code], self.net.faults[i].rank,
                 self.net.faults[i].peer)
                for i in range(min(self.net.fault_count, <uint64_t>SIM_FAULT_LOG))]

    # ------------------------------------------------------------- state

    @property
    def idle(self):
        """True if nothing is pending."""
        return self.refresh() == 0

    def in_flight(self):
        """Packets not yet released and transfers not yet freed, as a pair."""
        cdef uint32_t i
        cdef uint64_t packets = 0
        cdef uint64_t transfers = 0
        for i in range(self.net.size * self.net.size):
            packets += self.net.channels[i].posted - self.net.channels[i].released
            transfers += self.net.channels[i].busy
        return packets, transfers

    def regions(self, rank):
        """Number of regions that `rank` has registered now."""
        self.check(rank)
        return self.net.ranks[<uint32_t>rank].region_used

    def locked(self, rank):
        """Bytes that `rank` has registered now."""
        self.check(rank)
        return self.net.ranks[<uint32_t>rank].locked

    def fingerprint(self, mask=None):
        """A digest of the whole state but the times.

        Parameters
        ----------
        mask : callable, optional
            ``mask(src, dst, packet)`` returns the bytes to digest for a packet:
            an explorer blanks addresses that differ from run to run.

        Returns
        -------
        bytes
            16 bytes; equal states of one program have equal digests.
        """
        digest = hashlib.blake2b(digest_size=16)
        cdef uint32_t src, dst
        for src in range(self.net.size):
            digest.update(struct.pack("=BIIQ", self.net.ranks[src].dead,
                                      self.net.ranks[src].accepted,
                                      self.net.ranks[src].region_used,
                                      self.net.ranks[src].queue_tail
                                      - self.net.ranks[src].queue_head))
            for dst in range(self.net.size):
                self._digest_channel(digest, src, dst, mask)
        return digest.digest()

    def _digest_channel(self, digest, uint32_t src, uint32_t dst, mask):
        cdef sim_channel *ch = sim_between(&self.net, src, dst)
        cdef sim_transfer *tr
        cdef sim_packet *packet
        cdef uint64_t i
        cdef uint32_t t
        digest.update(struct.pack("=6B", ch.connected, ch.connecting, ch.held, ch.close,
                                  ch.loss, ch.busy > 0))
        digest.update(struct.pack("=2Q", ch.posted - ch.delivered, ch.posted - ch.released))
        for i in range(ch.released, ch.posted):
            packet = &ch.packets[i % self.net.slots]
            text = packet.data[:packet.length]
            if mask is not None:
                text = mask(src, dst, text)
            digest.update(struct.pack("=I3BQ", packet.length, packet.fenced, packet.behind,
                                      packet.discarded, ch.chain - packet.chain))
            digest.update(text)
        if not ch.busy:
            return
        for t in range(self.net.transfers):
            tr = &ch.transfers[t]
            if tr.used:
                digest.update(struct.pack(
                    "=I7BbQQQ", t, tr.opcode, tr.signaled, tr.fenced, tr.picked, tr.handed,
                    tr.placed, tr.queued, tr.status, tr.length, tr.offset,
                    ch.chain - tr.chain))

    def close(self):
        """Let every connected pair disconnect, and deliver what is left."""
        cdef sim_rank *rank
        cdef uint32_t src, dst
        for src in range(self.net.size):
            rank = &self.net.ranks[src]
            for dst in range(self.net.size):
                rank.fabric.ops.disconnect(&rank.fabric, dst)
        while self.run_next():
            pass


@cython.no_gc_clear     # an engine that ends with it still gives its regions back
cdef class SimFabric(Fabric):
    """One rank's end of a `Network`, which it keeps alive."""

    def close(self):
        """Leave the network; idempotent.

        Peers that were not told goodbye (``disconnect``) see this end as lost,
        after what it had posted.
        """
        fabric_close(&self.network.net, self.handle.rank)
