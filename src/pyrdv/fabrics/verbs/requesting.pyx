# cython: language_level=3
"""What the connection manager is told of a connection, and how a request is sent.

No signal may cut a request short on iWARP: siw connects its stream within it, and closes the stream
if a signal comes.  Where that end arrives before the other kernel has taken the stream, siw ends
the *listener* there and frees what it still names (docs/lab.md).
"""
from libc.stdint cimport uint8_t
from libc.string cimport memset

from pyrdv.fabrics.verbs.librdmacm cimport (
    RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, rdma_cm_id, rdma_conn_param)
from pyrdv.fabrics.verbs.silence cimport transport_patience
from pyrdv.fabrics.verbs.state cimport link_t, verbs_t


cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass

cdef extern from "undisturbed.h" nogil:
    void undisturbed_begins(sigset_t *kept)
    void undisturbed_ends(const sigset_t *kept)


cdef void parameters(verbs_t *f, rdma_cm_id *ident, rdma_conn_param *out, const void *data,
                     uint8_t length) noexcept nogil:
    cdef uint8_t ack
    memset(out, 0, sizeof(rdma_conn_param))
    out.private_data = data
    out.private_data_len = length
    out.responder_resources = <uint8_t> f.reads_max
    out.initiator_depth = <uint8_t> f.reads_init_max
    out.flow_control = 1
    # On an old kernel that refuses the option the time-out is 0.54 s.
    transport_patience(f.peer_timeout, f.frail_fence, &ack, &out.retry_count)
    # Never needed (V3); iWARP has none.
    out.rnr_retry_count = 0 if f.iwarp else 7
    if not f.iwarp:
        f.lib.rdma_set_option(ident, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack, sizeof(ack))


cdef int request_send(verbs_t *f, link_t *link, rdma_conn_param *parameter) noexcept nogil:
    """Send the request undisturbed; 0, or -1 and errno."""
    cdef sigset_t kept
    cdef int status
    if not f.iwarp:
        return f.lib.rdma_connect(link.qp.id, parameter)
    undisturbed_begins(&kept)
    status = f.lib.rdma_connect(link.qp.id, parameter)
    undisturbed_ends(&kept)
    return status
