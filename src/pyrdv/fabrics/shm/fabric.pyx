# cython: language_level=3
"""Python owner of one shm fabric: construction, addresses, counters."""
import os
from hashlib import blake2b

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport (
    CAP_FREE_SINK, CAP_LOCAL, CAP_POLLED, CAP_SINGLE_COPY, HEADER_MAX, Fabric, fabric_ops)
from pyrdv.fabrics.shm.admission cimport close_public
from pyrdv.fabrics.shm.channel cimport (
    MAY_BOTH, NODES, SHM_MAGIC, SHM_VERSION, inbound_t, node_t, peer_t,
    shm_bulk_size, shm_packet_max, ticks_scale)
from pyrdv.fabrics.shm.control cimport (
    control_close, control_open, shm_arm, shm_connect, shm_deregister, shm_disarm,
    shm_disconnect, shm_maintain, shm_register, shm_signals, shm_watch)
from pyrdv.fabrics.shm.datapath cimport shm_discard, shm_poll, shm_post, shm_release
from pyrdv.fabrics.shm.doors cimport NAME_MAX_BYTES, address_t, open_doors
from pyrdv.fabrics.shm.lacks cimport lack_words, last_words, words_say
from pyrdv.fabrics.shm.rights cimport may_copy

from pyrdv import shortage
from pyrdv.errors import ResourceError


cdef extern from "ticks.h" nogil:
    void ticks_begin(ticks_scale *scale)

cdef extern from "<sys/prctl.h>" nogil:
    int PR_SET_PTRACER
    unsigned long PR_SET_PTRACER_ANY
    int prctl(int option, ...)


cdef enum:
    TRANSFER_BITS = 35  # 32 GiB: 131072 chunks of the largest size

cdef fabric_ops OPS  # constant after import
OPS.post = shm_post
OPS.poll = shm_poll
OPS.release = shm_release
OPS.discard = shm_discard
OPS.register_memory = shm_register
OPS.deregister = shm_deregister
OPS.connect = shm_connect
OPS.disconnect = shm_disconnect
OPS.maintain = shm_maintain
OPS.arm = shm_arm
OPS.disarm = shm_disarm
OPS.watch = shm_watch
OPS.signals = shm_signals

cdef dict MODES = {"off": 0, "auto": 1, "on": 2}


def _allow_single_copy():
    # Where Yama restricts ptrace to descendants (scope 1), peers need our
    # consent to copy from and to this process; it also admits a debugger of
    # the same user.  In scope 2 and 3 no consent helps.
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            scope = file.read().strip()
    except OSError:
        return
    if scope == "1":
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)


cdef class ShmFabric(Fabric):
    """Messages between the processes of one user on one host.

    Parameters
    ----------
    rank, size : int
        World rank of this end and number of ranks in the job.
    token : bytes
        Secret of the job; connections from processes without it are refused.
    single_copy : {'auto', 'on', 'off'}
        Whether large transfers are copied by the kernel between the
        processes: where it is allowed; always (connecting fails where it is
        not); never (they go through shared memory).

    Raises
    ------
    ValueError
        For a rank outside ``0 <= rank < size`` or an unknown `single_copy`.
    ResourceError
        If the system refuses a socket; the text names the limit.
    """

    def __cinit__(self, rank, size, bytes token, single_copy="auto"):
        self.state.public_fd = self.state.private_fd = self.state.place_fd = -1
        self.state.timer_fd = -1
        self.state.base.wake_fd = -1
        self.handle = &self.state.base
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} is not in 0..{size - 1}: give 0 <= rank < size")
        if single_copy not in MODES:
            raise ValueError(f"single_copy={single_copy!r}: use 'auto', 'on' or 'off'")
        self.state.pid = os.getpid()
        self.state.uid = os.geteuid()
        self.state.mode = MODES[single_copy]
        self.state.base.ops = &OPS
        self.state.base.rank = rank
        self.state.base.size = size
        self.state.base.packet_max = shm_packet_max(shm_bulk_size(size))
        self.state.base.eager_max = self.state.base.packet_max - HEADER_MAX
        self.state.base.transfer_max = <uint64_t> 1 << TRANSFER_BITS
        self.state.base.capabilities = (
            CAP_LOCAL | CAP_POLLED | CAP_FREE_SINK | (CAP_SINGLE_COPY if self.state.mode else 0))
        digest = blake2b(b"pyrdv shm " + token, digest_size=32).digest()
        memcpy(self.state.token, <const uint8_t *> digest, 32)
        ticks_begin(&self.state.ticks)
        self.state.mark = int.from_bytes(os.urandom(8), "little") | 1
        self._reserve()
        self._listen()
        if self.state.mode:
            _allow_single_copy()

    cdef _reserve(self):
        # Everything that a step may need, so that no step allocates (R1).
        cdef uint32_t size = self.state.base.size
        cdef uint32_t i
        self.state.peers = <peer_t *> calloc(size, sizeof(peer_t))
        self.state.inbound = <inbound_t **> calloc(size, sizeof(inbound_t *))
        self.state.inbound_rank = <uint32_t *> calloc(size, sizeof(uint32_t))
        self.state.busy = <uint32_t *> calloc(size, sizeof(uint32_t))
        self.state.ending = <uint32_t *> calloc(size, sizeof(uint32_t))
        self.state.nodes = <node_t *> calloc(NODES, sizeof(node_t))
        self.state.base.lacks = <uint8_t *> calloc(size, sizeof(uint8_t))
        if (self.state.peers == NULL or self.state.inbound == NULL or self.state.busy == NULL
                or self.state.inbound_rank == NULL or self.state.ending == NULL
                or self.state.nodes == NULL or self.state.base.lacks == NULL):
            raise MemoryError(f"no memory for a shm fabric of {size} ranks")
        for i in range(NODES - 1):
            self.state.nodes[i].next = &self.state.nodes[i + 1]
        self.state.free_nodes = self.state.nodes
        self.state.free_count = NODES

    cdef _listen(self):
        cdef address_t *own = <address_t *> calloc(1, sizeof(address_t))
        if own == NULL:
            raise MemoryError("no memory for the address of a shm fabric")
        self.state.peers[self.state.base.rank].address = own
        own.magic = SHM_MAGIC
        own.version = SHM_VERSION
        own.pid = self.state.pid
        own.mark_address = <uint64_t> &self.state.mark
        own.mark = self.state.mark
        try:
            open_doors(&self.state, own)
            if control_open(&self.state) < 0:
                raise OSError(errno, os.strerror(errno))
        except OSError as error:
            what = shortage.explain("opening its sockets", error.errno)
            raise ResourceError(f"rank {self.rank} cannot start to use shared memory: {what}",
                                peer=self.rank) from None
        self.open = True

    def __dealloc__(self):
        cdef uint32_t i
        if self.state.peers != NULL:
            control_close(&self.state)
            for i in range(self.state.base.size):
                free(self.state.peers[i].address)
                free(self.state.peers[i].words)
        free(self.state.peers)
        free(self.state.inbound)
        free(self.state.inbound_rank)
        free(self.state.busy)
        free(self.state.ending)
        free(self.state.nodes)
        free(self.state.base.lacks)
        free(self.state.regions)

    @property
    def address(self):
        """What other ranks need to connect to this one, as bytes."""
        return PyBytes_FromStringAndSize(
            <char *> self.state.peers[self.state.base.rank].address, sizeof(address_t))

    def set_peers(self, addresses):
        """Tell where the other ranks are.

        Parameters
        ----------
        addresses : sequence of bytes or None
            ``address`` of each rank; None for a rank on another host.  The
            own entry is ignored.  ``CAP_SINGLE_COPY`` stays set only if it
            holds for every peer given.

        Raises
        ------
        ValueError
            For a wrong number of entries, or an entry that is no address or
            one of another version.
        """
        cdef uint32_t rank
        cdef address_t *entry
        cdef int call = 0
        cdef bint single = self.state.mode != 0
        cdef const address_t *own = <address_t *> self.state.peers[self.state.base.rank].address
        cdef bint private = own.reach != 0
        if len(addresses) != self.size:
            raise ValueError(f"{len(addresses)} addresses for {self.size} ranks: give one per rank")
        for rank in range(self.state.base.size):
            if addresses[rank] is None or rank == self.state.base.rank:
                continue
            entry = self._parse(rank, addresses[rank])
            free(self.state.peers[rank].address)
            self.state.peers[rank].address = entry
            if single and may_copy(<int> entry.pid, entry.mark_address, entry.mark,
                                   &call) != MAY_BOTH:
                single = False
            private = private and entry.reach == own.reach
        if private:
            close_public(&self.state)
        if not single:
            self.state.base.capabilities &= ~<uint32_t> CAP_SINGLE_COPY

    cdef address_t *_parse(self, rank, bytes text) except NULL:
        cdef address_t *entry
        if len(text) != sizeof(address_t):
            raise ValueError(f"shm address of rank {rank} has {len(text)} bytes instead of "
                             f"{sizeof(address_t)}: run the same version on all ranks")
        entry = <address_t *> calloc(1, sizeof(address_t))
        if entry == NULL:
            raise MemoryError("no memory for the address of a peer")
        memcpy(entry, <const char *> text, sizeof(address_t))
        if entry.magic != SHM_MAGIC or entry.version != SHM_VERSION:
            version = entry.version
            free(entry)
            raise ValueError(f"shm address of rank {rank} is of layout {version}, ours is "
                             f"{SHM_VERSION}: run the same version on all ranks")
        if not 0 < entry.name_length <= NAME_MAX_BYTES:
            free(entry)
            raise ValueError(f"shm address of rank {rank} is damaged: its name length is wrong")
        return entry

    def lack_text(self, peer, incoming=False):
        """What this process lacks for a connection to `peer`, or `incoming` from it, in words."""
        return lack_words(&self.state, peer, incoming)

    def failure_text(self, peer):
        """What `peer` said when it ended with an error; empty if it said nothing."""
        return last_words(&self.state, peer)

    def last_words(self, text):
        """Tell the peers why this end ends; they show it as `failure_text`."""
        if self.open and self.state.pid == os.getpid():
            words_say(&self.state, text.encode("utf-8", "replace"))

    def close(self):
        """Close all descriptors and free all channels; idempotent.

        Peers that were not told goodbye (``disconnect``) see this end as
        lost.  In a forked child it closes the child's copies and tells
        nobody, so that the parent's death stays visible to its peers.
        """
        if self.open:
            self.open = False
            control_close(&self.state)

    @property
    def closed(self):
        """Whether ``close`` was called."""
        return not self.open

    @property
    def counters(self):
        """What this end did so far, a dict of integers."""
        return {
            "packets": self.state.counters.packets,
            "bulk_packets": self.state.counters.bulk_packets,
            "received": self.state.counters.received,
            "jobs": self.state.counters.jobs,
            "chunks": self.state.counters.chunks,
            "chunks_helped": self.state.counters.chunks_helped,
            "staged_jobs": self.state.counters.staged_jobs,
            "cells": self.state.counters.cells,
            "doorbells": self.state.counters.doorbells,
            "sleeps": self.state.counters.sleeps,
            "refused": self.state.counters.refused,
            "foreign": self.state.counters.foreign,
            "accept_errors": self.state.counters.accept_errors,
        }
