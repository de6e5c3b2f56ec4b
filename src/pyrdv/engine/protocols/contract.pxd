# cython: language_level=3
"""What a protocol is: one object, in one file, and a row of ``table``.

All functions run under the engine's lock.  They are step-safe (R1) unless marked *call*; what they
leave to a call they note by ``calling``.  A NULL function is one that the protocol has no use for.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport call_t, engine_t, message_t, op_t, peer_t
from pyrdv.engine.wire cimport header_t
from pyrdv.fabrics.contract cimport completion

cdef enum:
    KINDS_MOST = 5              # packet kinds of one protocol

cdef enum verdict:              # of a packet
    VERDICT_ILLEGAL = 0         # it breaks the rules (R8), and the connection of its peer
    VERDICT_TAKEN = 1
    VERDICT_KEPT = 2            # there is no memory for it now: it stays with the fabric

cdef enum served:               # of an operation that is first in a queue of its peer
    SERVED_AGAIN = 0            # it stays there: the fabric, or a call, must act first
    SERVED = 1                  # it went on: it is posted, complete, or in another queue

cdef struct kind_t:             # a kind of packets, and what each of them must be
    uint8_t kind                # packet_kind
    uint8_t length              # bytes, data behind it apart
    uint8_t flags               # packet_flags that it may carry
    uint8_t announces           # an announcement: it has a tag, a number, content and advice
    uint8_t carries             # header.length bytes of data are behind it
    # One arrived.  `packet` is a copy of `length` bytes, checked as the fields above say; `data` is
    # in the fabric's memory.  Returns a verdict.
    int (*arrived)(engine_t *e, peer_t *p, const header_t *packet, const void *data) noexcept nogil

cdef enum:
    PEER_ALIGN = 8              # of what a protocol keeps per peer
    # Set in the id of a READ or WRITE that is of no operation; none has so high an index.
    OWN_ID = 1 << 30

cdef struct protocol_t:
    const char *name
    uint8_t code                # protocol_code; NONE: no operation is ever its own
    uint8_t kind_count
    kind_t kinds[KINDS_MOST]
    # call.  `op` was posted, and steps by themselves go on with it (`engine_t.unattended`): take
    # what it will need if this protocol moves it.  What cannot be had is left to a later call.
    void (*reserve)(call_t *call, op_t *op) noexcept nogil
    # Send `op` of connected peer `p` is next, and chosen for this protocol: announce it.  Returns a
    # fabric_status; FABRIC_OK: the operation is announced, and may be complete.
    int (*start)(engine_t *e, peer_t *p, op_t *op) noexcept nogil
    # Operation `op` was first among those ready to post, and is taken off their queue: post what
    # comes next of it.  Returns `served`; AGAIN: it is put back.
    int (*serve)(engine_t *e, peer_t *p, op_t *op) noexcept nogil
    # A READ or WRITE of `op`, which is not free, ended.
    void (*ended)(engine_t *e, op_t *op, const completion *c) noexcept nogil
    # One whose id has OWN_ID ended; one row has this.  False: the peer broke the rules.
    bint (*own_ended)(engine_t *e, const completion *c) noexcept nogil
    # Move pieces that wait for processors, a bounded number (engine_t.pieces); how many moved.
    int (*move)(engine_t *e) noexcept nogil
    # Receive `op` takes unexpected message `m`, which is in no queue any more, and releases it.
    void (*deliver)(engine_t *e, op_t *op, message_t *m) noexcept nogil
    # call.  Nobody wants the data of matched receive `op`: True if its buffer is not touched any
    # more.  The sender is let go all the same: at once, or when what is under way has ended.
    # False: wait for its end.  NULL: False.
    bint (*forsake)(call_t *call, op_t *op) noexcept nogil
    # Post what `p` is owed beside messages, if anything.
    void (*owed)(engine_t *e, peer_t *p) noexcept nogil
    # call.  Do for `p`, which is alive, what a step could not.  Returns how many things happened.
    int (*act)(call_t *call, peer_t *p) noexcept nogil
    # call.  Nothing comes from `p` any more; `all`: nor can anything go there, or be read from its
    # memory.  Its operations are ended by others (`ending`).
    void (*peer_gone)(call_t *call, peer_t *p, bint everything) noexcept nogil
    # What the protocol keeps per peer: bytes, all 0 at first, and where they are in `peer_t.own`.
    uint32_t peer_bytes
    uint32_t peer_offset        # set by ``table``
    # Mix all of it that later behaviour depends on into `h`, for explorers.
    void (*hash)(const peer_t *p, uint64_t *h) noexcept nogil
