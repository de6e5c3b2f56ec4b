# cython: language_level=3
"""Private data of the connection manager and the HELLO packet (docs/wire.md, verbs)."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pyrdv.fabrics.verbs.state cimport link_offer_t, link_t, verbs_t


cdef enum:
    HANDSHAKE_MAGIC = 0x56445250    # "PRDV" in memory
    REQUEST_ROOM = 56               # private data that every transport leaves to a request
    REPLY_ROOM = 196

# Why a connection is refused; on the wire, so numbers stay.
cdef enum reject_reason:
    REJECT_NONE = 0
    REJECT_VERSION = 1      # the other side speaks another version
    REJECT_STRANGER = 2     # not of this job, or it does not know the job's secret
    REJECT_RIVAL = 3        # both connected at once, and the other attempt goes on
    REJECT_ALREADY = 4      # connected already
    REJECT_GONE = 5         # this side has given the peer up or is closing
    REJECT_RESOURCES = 6    # no memory or queue pair; `detail` is the errno
    REJECT_MTU = 7          # this side has the smaller path MTU, so it connects (J7)

cdef struct request_t:
    uint32_t magic
    uint32_t version
    uint32_t source         # rank of the active side
    uint32_t target         # rank of the passive side
    uint64_t job            # tells jobs apart; no secret
    uint64_t nonce
    uint32_t mtu            # enum ibv_mtu of its port; 0: the transport has none
    uint32_t reserved
    uint8_t mac[16]

cdef struct reply_t:
    uint32_t magic
    uint32_t version
    uint64_t nonce
    link_offer_t offer
    uint8_t mac[16]

cdef struct hello_t:
    link_offer_t offer
    uint8_t mac[16]

cdef struct reject_t:
    uint32_t magic
    uint32_t version
    uint32_t reason         # reject_reason
    uint32_t detail

# All that takes bytes of the other side copies, then checks, then uses (R8).

# step.  A number that cannot be foreseen; 0 only if the system has none (errno).
cdef uint64_t nonce_new() noexcept nogil
# step.  Fill the request of `link`; its nonce is set.
cdef void request_fill(const verbs_t *f, const link_t *link, request_t *out) noexcept nogil
# step.  REJECT_NONE, and `out` is a checked copy; or why not.
cdef int request_check(const verbs_t *f, const void *data, uint32_t length,
                       request_t *out) noexcept nogil
# step.  Fill the answer to the request whose nonce is link.peer_nonce.
cdef void reply_fill(const verbs_t *f, const link_t *link, reply_t *out) noexcept nogil
# step.  Check the answer to our request; fills link.offer and link.peer_nonce.
cdef int reply_check(const verbs_t *f, link_t *link, const void *data,
                     uint32_t length) noexcept nogil
# step.  Fill the first packet of the active side.
cdef void hello_fill(const verbs_t *f, const link_t *link, hello_t *out) noexcept nogil
# step.  Check the first packet on an accepted link; fills link.offer.
cdef bint hello_check(verbs_t *f, link_t *link, const char *data, uint32_t length) noexcept nogil
# step.  Why a connection is refused.
cdef void reject_fill(int reason, uint32_t detail, reject_t *out) noexcept nogil
# step.  False: the refusal is not from a pyrdv process, or says nothing.
cdef bint reject_read(const void *data, uint32_t length, reject_t *out) noexcept nogil
