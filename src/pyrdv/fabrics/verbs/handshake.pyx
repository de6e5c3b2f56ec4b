# cython: language_level=3
"""How two ranks recognize each other before they exchange anything else.

H1  Three messages: the active side's REQUEST, the passive side's REPLY, and
    the active side's HELLO, the first packet on the connection (V2).  A REPLY
    shows that its sender knows the job's secret and has seen this very
    REQUEST; a HELLO the same of the REPLY.  So nothing that was recorded can
    be used again: a repeated REQUEST gets a connection that waits for a HELLO
    in vain.
H2  The checksum of each message covers everything in it, what both sides said
    before, and a label of its own, with a key that only the two ranks know.
    In particular nobody can put other addresses and keys in an offer.
H3  Nothing is allocated for a REQUEST before its checksum was found right.
H4  Fields are little-endian and of fixed width.  Magic and version come
    first and keep their place for ever, so that processes of different
    versions can tell each other so.
H5  ``peers[rank].key`` of the own rank is not a key: its first 8 bytes tell
    jobs apart and may be known.
"""
import sys
from hashlib import blake2b

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pyrdv.fabrics.verbs.state cimport (
    PROTOCOL, RING_OFFSET, RING_SLOTS, RING_SLOT, SLOT, link_offer_t, link_t, packet_head_t,
    ring_tail_t, verbs_t)


cdef extern from "siphash.h" nogil:
    void siphash(const uint8_t *key, const void *data, size_t length, uint8_t *out)
    bint siphash_same(const uint8_t *left, const uint8_t *right)

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void *out, size_t length, unsigned int flags)


cdef enum:
    RECEIVES_MAX = 64       # the most data credits that are believed

cdef enum label:
    # First word of what a checksum covers (H2).
    LABEL_REQUEST = 0x71
    LABEL_REPLY = 0x72
    LABEL_HELLO = 0x73

# What the checksum of a reply or a hello covers (H2).
cdef struct proof_t:
    uint32_t label
    uint32_t version
    uint32_t active         # rank
    uint32_t passive
    uint64_t active_nonce
    uint64_t passive_nonce
    link_offer_t offer


def _assert_layout():
    sizes = {
        "request": (sizeof(request_t), 56), "reply": (sizeof(reply_t), 72),
        "hello": (sizeof(hello_t), 56), "reject": (sizeof(reject_t), 16),
        "offer": (sizeof(link_offer_t), 40), "proof": (sizeof(proof_t), 72),
        "packet head": (sizeof(packet_head_t), 16), "ring tail": (sizeof(ring_tail_t), 24)}
    wrong = [name for name, (size, wanted) in sizes.items() if size != wanted]
    if wrong or sys.byteorder != "little":
        raise ImportError(f"the verbs fabric is laid out for little-endian machines with natural "
                          f"alignment; this one differs ({', '.join(wrong) or sys.byteorder})")
    if sizeof(request_t) > REQUEST_ROOM or sizeof(reply_t) > REPLY_ROOM:
        raise ImportError("the handshake does not fit into the connection manager's messages")


_assert_layout()


cdef uint64_t nonce_new() noexcept nogil:
    cdef uint64_t value = 0
    if getrandom(&value, sizeof(value), 0) != sizeof(value):
        return 0
    return value | 1


cdef inline uint64_t job(const verbs_t *f) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, f.peers[f.base.rank].key, sizeof(value))
    return value


cdef void own_offer(const link_t *link, link_offer_t *out) noexcept nogil:
    memset(out, 0, sizeof(link_offer_t))
    out.control = <uint64_t> link.shared
    out.recv_slots = link.recv_slots
    out.slot = SLOT
    if link.shared_mr != NULL:
        out.control_key = link.shared_mr.rkey
        if link.ring_offered:
            out.ring = <uint64_t> (link.shared + RING_OFFSET)
            out.ring_key = link.shared_mr.rkey
            out.ring_crc = link.ring_crc


cdef bint offer_good(const link_offer_t *offer) noexcept nogil:
    """Whether an offer can be kept to; a wrong address in it only fails its sender."""
    if offer.slot != SLOT or offer.reserved != 0 or offer.ring_crc > 1:
        return False
    if not 0 < offer.recv_slots <= RECEIVES_MAX:
        return False
    if offer.ring == 0:
        return offer.ring_key == 0 and offer.ring_crc == 0
    return offer.ring % 8 == 0 and offer.ring + RING_SLOTS * RING_SLOT > offer.ring


cdef void prove(const verbs_t *f, const link_t *link, int which, const link_offer_t *offer,
                uint8_t *mac) noexcept nogil:
    cdef proof_t proof
    memset(&proof, 0, sizeof(proof))
    proof.label = which
    proof.version = PROTOCOL
    proof.active = f.base.rank if link.active else link.peer
    proof.passive = link.peer if link.active else f.base.rank
    proof.active_nonce = link.nonce if link.active else link.peer_nonce
    proof.passive_nonce = link.peer_nonce if link.active else link.nonce
    memcpy(&proof.offer, offer, sizeof(link_offer_t))
    siphash(f.peers[link.peer].key, &proof, sizeof(proof), mac)


cdef void sign_request(const verbs_t *f, uint32_t peer, const request_t *request,
                       uint8_t *mac) noexcept nogil:
    cdef uint8_t text[4 + REQUEST_ROOM]
    cdef uint32_t which = LABEL_REQUEST
    cdef size_t covered = sizeof(request_t) - sizeof(request.mac)
    memcpy(text, &which, sizeof(which))
    memcpy(&text[4], request, covered)
    siphash(f.peers[peer].key, text, 4 + covered, mac)


cdef void request_fill(const verbs_t *f, const link_t *link, request_t *out) noexcept nogil:
    memset(out, 0, sizeof(request_t))
    out.magic = HANDSHAKE_MAGIC
    out.version = PROTOCOL
    out.source = f.base.rank
    out.target = link.peer
    out.job = job(f)
    out.nonce = link.nonce
    out.mtu = f.mtu
    sign_request(f, link.peer, out, out.mac)


cdef int request_check(const verbs_t *f, const void *data, uint32_t length,
                       request_t *out) noexcept nogil:
    cdef uint8_t mac[16]
    # Longer is allowed: some transports fill private data up with zeros.
    if data == NULL or length < sizeof(request_t):
        return REJECT_STRANGER
    memcpy(out, data, sizeof(request_t))
    if out.magic != HANDSHAKE_MAGIC:
        return REJECT_STRANGER
    if out.version != PROTOCOL:
        return REJECT_VERSION
    if (out.source >= f.base.size or out.source == f.base.rank or out.target != f.base.rank
            or out.job != job(f) or out.nonce == 0):
        return REJECT_STRANGER
    sign_request(f, out.source, out, mac)
    if not siphash_same(mac, out.mac):
        return REJECT_STRANGER
    return REJECT_NONE


cdef void reply_fill(const verbs_t *f, const link_t *link, reply_t *out) noexcept nogil:
    memset(out, 0, sizeof(reply_t))
    out.magic = HANDSHAKE_MAGIC
    out.version = PROTOCOL
    out.nonce = link.nonce
    own_offer(link, &out.offer)
    prove(f, link, LABEL_REPLY, &out.offer, out.mac)


cdef int reply_check(const verbs_t *f, link_t *link, const void *data,
                     uint32_t length) noexcept nogil:
    cdef reply_t reply
    cdef uint8_t mac[16]
    if data == NULL or length < sizeof(reply_t):
        return REJECT_STRANGER
    memcpy(&reply, data, sizeof(reply_t))
    if reply.magic != HANDSHAKE_MAGIC:
        return REJECT_STRANGER
    if reply.version != PROTOCOL:
        return REJECT_VERSION
    link.peer_nonce = reply.nonce
    prove(f, link, LABEL_REPLY, &reply.offer, mac)
    if not siphash_same(mac, reply.mac) or not offer_good(&reply.offer):
        return REJECT_STRANGER
    link.offer = reply.offer
    return REJECT_NONE


cdef void hello_fill(const verbs_t *f, const link_t *link, hello_t *out) noexcept nogil:
    memset(out, 0, sizeof(hello_t))
    own_offer(link, &out.offer)
    prove(f, link, LABEL_HELLO, &out.offer, out.mac)


cdef bint hello_check(verbs_t *f, link_t *link, const char *data, uint32_t length) noexcept nogil:
    cdef hello_t hello
    cdef uint8_t mac[16]
    if length != sizeof(hello_t) or link.active:
        return False
    memcpy(&hello, data, sizeof(hello_t))
    prove(f, link, LABEL_HELLO, &hello.offer, mac)
    if not siphash_same(mac, hello.mac) or not offer_good(&hello.offer):
        f.counters.refused += 1
        return False
    link.offer = hello.offer
    return True


cdef void reject_fill(int reason, uint32_t detail, reject_t *out) noexcept nogil:
    out.magic = HANDSHAKE_MAGIC
    out.version = PROTOCOL
    out.reason = reason
    out.detail = detail


cdef bint reject_read(const void *data, uint32_t length, reject_t *out) noexcept nogil:
    if data == NULL or length < sizeof(reject_t):
        return False
    memcpy(out, data, sizeof(reject_t))
    # A refusal is not authenticated: its text is for people, and no more than a time-out
    # can be caused by it.
    return out.magic == HANDSHAKE_MAGIC and REJECT_NONE < out.reason <= REJECT_MTU


def pair_key(bytes token, left, right):
    """The key of the checksums between two ranks, 16 bytes; the order of the ranks is no matter.

    Parameters
    ----------
    token : bytes
        Secret of the job.
    left, right : int
        World ranks.
    """
    low, high = sorted((left, right))
    return blake2b(b"pyrdv verbs pair %d %d " % (low, high) + token, digest_size=16).digest()


def job_mark(bytes token):
    """What tells jobs apart in requests (H5), 16 bytes of which 8 are used."""
    return blake2b(b"pyrdv verbs job " + token, digest_size=16).digest()


def siphash128(bytes key, bytes data):
    """SipHash-2-4 with 128 bits of output.

    Parameters
    ----------
    key : bytes
        16 bytes.
    data : bytes

    Returns
    -------
    bytes
        16 bytes.

    Raises
    ------
    ValueError
        For a key of another length.
    """
    cdef uint8_t out[16]
    if len(key) != 16:
        raise ValueError(f"a key of {len(key)} bytes: give 16")
    siphash(<const uint8_t *> key, <const char *> data, len(data), out)
    return PyBytes_FromStringAndSize(<char *> out, 16)
