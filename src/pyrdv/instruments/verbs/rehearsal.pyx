# cython: language_level=3
"""One end of the handshake without a device, for tests and fuzzing."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pyrdv.fabrics.verbs.handshake cimport (
    hello_check, hello_fill, hello_t, nonce_new, reject_fill, reject_read, reject_t, reply_check,
    reply_fill, reply_t, request_check, request_fill, request_t)
from pyrdv.fabrics.verbs.libibverbs cimport ibv_mr
from pyrdv.fabrics.verbs.state cimport link_t, peer_t, verbs_t

from pyrdv.fabrics.verbs.handshake import job_mark, pair_key


cdef class Rehearsal:
    """What one rank says and believes while it connects to another.

    Parameters
    ----------
    rank, peer, size : int
        World ranks of the two, and ranks in the job.
    token : bytes
        Secret of the job.
    active : bool
        Whether this end asks for the connection.
    ring : bool
        Whether it offers a ring.
    """

    cdef verbs_t *fabric
    cdef link_t *link
    cdef ibv_mr region

    def __cinit__(self, uint32_t rank, uint32_t peer, uint32_t size, bytes token, bint active,
                  bint ring=False):
        cdef uint32_t other
        cdef bytes key
        self.fabric = <verbs_t *> calloc(1, sizeof(verbs_t))
        self.link = <link_t *> calloc(1, sizeof(link_t))
        if self.fabric == NULL or self.link == NULL:
            raise MemoryError("no memory for a rehearsal")
        self.fabric.peers = <peer_t *> calloc(size, sizeof(peer_t))
        if self.fabric.peers == NULL:
            raise MemoryError("no memory for a rehearsal")
        self.fabric.base.rank = rank
        self.fabric.base.size = size
        for other in range(size):
            key = job_mark(token) if other == rank else pair_key(token, rank, other)
            memcpy(self.fabric.peers[other].key, <const char *> key, 16)
        self.region.rkey = 0x1234
        self.link.peer = peer
        self.link.active = active
        self.link.nonce = nonce_new()
        self.link.recv_slots = 32
        self.link.shared = <char *> 4096
        self.link.shared_mr = &self.region
        self.link.ring_offered = ring

    def __dealloc__(self):
        if self.fabric != NULL:
            free(self.fabric.peers)
        free(self.fabric)
        free(self.link)

    @property
    def nonce(self):
        """Own nonce."""
        return self.link.nonce

    @property
    def offer(self):
        """What the other end was believed to offer, a dict of integers."""
        return dict(self.link.offer)

    @property
    def refused(self):
        """How many were refused."""
        return self.fabric.counters.refused

    def request(self):
        """The active side's request."""
        cdef request_t out
        request_fill(self.fabric, self.link, &out)
        return PyBytes_FromStringAndSize(<char *> &out, sizeof(out))

    def check_request(self, bytes data):
        """0, and its nonce is noted; or why it is refused, a ``reject_reason``."""
        cdef request_t out
        cdef int reason = request_check(self.fabric, <const char *> data, <uint32_t> len(data),
                                        &out)
        if reason == 0:
            self.link.peer_nonce = out.nonce
        return reason

    def reply(self):
        """The passive side's answer."""
        cdef reply_t out
        reply_fill(self.fabric, self.link, &out)
        return PyBytes_FromStringAndSize(<char *> &out, sizeof(out))

    def check_reply(self, bytes data):
        """0, or why it is refused."""
        return reply_check(self.fabric, self.link, <const char *> data, <uint32_t> len(data))

    def hello(self):
        """The active side's first packet."""
        cdef hello_t out
        hello_fill(self.fabric, self.link, &out)
        return PyBytes_FromStringAndSize(<char *> &out, sizeof(out))

    def check_hello(self, bytes data):
        """Whether it is believed."""
        return hello_check(self.fabric, self.link, <const char *> data, <uint32_t> len(data))

    @staticmethod
    def rejection(int reason, uint32_t detail=0):
        """A refusal."""
        cdef reject_t out
        reject_fill(reason, detail, &out)
        return PyBytes_FromStringAndSize(<char *> &out, sizeof(out))

    @staticmethod
    def read_rejection(bytes data):
        """``(version, reason, detail)``, or None if it is none of ours."""
        cdef reject_t out
        if not reject_read(<const char *> data, <uint32_t> len(data), &out):
            return None
        return out.version, out.reason, out.detail
