# cython: language_level=3
"""Setting connections up, from either side (see .pyx)."""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from pyrdv.fabrics.verbs.librdmacm cimport rdma_cm_id, sockaddr_storage
from pyrdv.fabrics.verbs.state cimport link_t, verbs_t


cdef enum:
    ROUTES = 16             # pairs of addresses of two ranks, 4 each
    PRIVATE_ROOM = 256      # most private data of an event

cdef struct route_t:
    sockaddr_storage source
    sockaddr_storage target

# What peer_t.address points to.
cdef struct routes_t:
    uint32_t count          # 0: none of our addresses fits one of the peer
    route_t route[16]

# An event of the connection manager, copied and acknowledged.
cdef struct news_t:
    int event
    int status
    rdma_cm_id *id
    rdma_cm_id *listener
    uint8_t responder_resources
    uint8_t initiator_depth
    uint32_t length
    uint8_t data[256]

# All are ``call``.  A link that is being set up may be gone after any of them.

# Start to connect to `peer`, which has no link; FABRIC_AGAIN | LOST | FAILED (LACK_CONNECT).
cdef int join_start(verbs_t *f, uint32_t peer) noexcept nogil
# Go on with the idle link of `peer`, from this side; likewise.
cdef int join_again(verbs_t *f, uint32_t peer) noexcept nogil
# The connection manager reported something about a link that is not up.
cdef void join_event(verbs_t *f, link_t *link, const news_t *news) noexcept nogil
# Somebody asks for a connection; takes `news.id` over.
cdef void join_request(verbs_t *f, const news_t *news) noexcept nogil
# Time passed for a link that is not up; whether something happened.
cdef bint join_look(verbs_t *f, link_t *link, int64_t now) noexcept nogil
# Give a set-up up; `peer` is lost (FAIL_*, detail for the text).
cdef void join_fail(verbs_t *f, link_t *link, int failure, int detail) noexcept nogil
