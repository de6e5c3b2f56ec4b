# cython: language_level=3
"""What pyrdv uses of librdmacm: types and constants.

The functions are in the table of `library.pxd`.
"""
from libc.stdint cimport uint8_t, uint32_t

from pyrdv.fabrics.verbs.libibverbs cimport ibv_context, ibv_pd, ibv_qp


cdef extern from "<sys/socket.h>" nogil:
    struct sockaddr:
        pass
    struct sockaddr_storage:
        unsigned short ss_family


cdef extern from "verbs_shim.h" nogil:
    enum rdma_cm_event_type:
        RDMA_CM_EVENT_ADDR_RESOLVED
        RDMA_CM_EVENT_ADDR_ERROR
        RDMA_CM_EVENT_ROUTE_RESOLVED
        RDMA_CM_EVENT_ROUTE_ERROR
        RDMA_CM_EVENT_CONNECT_REQUEST
        RDMA_CM_EVENT_CONNECT_RESPONSE
        RDMA_CM_EVENT_CONNECT_ERROR
        RDMA_CM_EVENT_UNREACHABLE
        RDMA_CM_EVENT_REJECTED
        RDMA_CM_EVENT_ESTABLISHED
        RDMA_CM_EVENT_DISCONNECTED
        RDMA_CM_EVENT_DEVICE_REMOVAL
        RDMA_CM_EVENT_ADDR_CHANGE
        RDMA_CM_EVENT_TIMEWAIT_EXIT

    enum rdma_port_space:
        RDMA_PS_TCP

    enum:
        RDMA_OPTION_ID
        RDMA_OPTION_ID_TOS
        RDMA_OPTION_ID_ACK_TIMEOUT

    struct rdma_event_channel:
        int fd

    struct rdma_cm_id:
        ibv_context *verbs
        rdma_event_channel *channel
        void *context
        ibv_qp *qp
        uint8_t port_num
        ibv_pd *pd

    struct rdma_conn_param:
        const void *private_data
        uint8_t private_data_len
        uint8_t responder_resources
        uint8_t initiator_depth
        uint8_t flow_control
        uint8_t retry_count
        uint8_t rnr_retry_count

    # `param` is a union of `conn` and `ud`; only `conn` is used.
    struct rdma_cm_event_param "":
        rdma_conn_param conn

    struct rdma_cm_event:
        rdma_cm_id *id
        rdma_cm_id *listen_id
        rdma_cm_event_type event
        int status
        rdma_cm_event_param param
