# cython: language_level=3
"""What the connection manager is told of a connection, and how a request is sent.  *call*."""
from libc.stdint cimport uint8_t

from pyrdv.fabrics.verbs.librdmacm cimport rdma_cm_id, rdma_conn_param
from pyrdv.fabrics.verbs.state cimport link_t, verbs_t

# What a request, or its acceptance, says, with `length` bytes of `data`.
cdef void parameters(verbs_t *f, rdma_cm_id *ident, rdma_conn_param *out, const void *data,
                     uint8_t length) noexcept nogil
# Send the request of `link`; 0, or -1 and errno.
cdef int request_send(verbs_t *f, link_t *link, rdma_conn_param *parameter) noexcept nogil
