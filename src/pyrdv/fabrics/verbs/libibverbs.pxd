# cython: language_level=3
"""What pyrdv uses of libibverbs: types, constants, and the inline calls of the data path.

The exported functions are in the table of `library.pxd`.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "verbs_shim.h" nogil:
    enum ibv_wc_status:
        IBV_WC_SUCCESS
        IBV_WC_WR_FLUSH_ERR
        IBV_WC_RETRY_EXC_ERR
        IBV_WC_REM_ACCESS_ERR

    enum ibv_wc_opcode:
        IBV_WC_SEND
        IBV_WC_RDMA_WRITE
        IBV_WC_RDMA_READ
        IBV_WC_RECV

    enum ibv_wr_opcode:
        IBV_WR_RDMA_WRITE
        IBV_WR_SEND
        IBV_WR_RDMA_READ

    enum ibv_send_flags:
        IBV_SEND_FENCE
        IBV_SEND_SIGNALED
        IBV_SEND_SOLICITED
        IBV_SEND_INLINE

    enum ibv_access_flags:
        IBV_ACCESS_LOCAL_WRITE
        IBV_ACCESS_REMOTE_WRITE
        IBV_ACCESS_REMOTE_READ

    enum ibv_qp_type:
        IBV_QPT_RC

    enum ibv_qp_state:
        IBV_QPS_RTS
        IBV_QPS_ERR

    enum ibv_qp_attr_mask:
        IBV_QP_STATE
        IBV_QP_CAP
        IBV_QP_TIMEOUT
        IBV_QP_PATH_MTU
        IBV_QP_MAX_QP_RD_ATOMIC

    enum ibv_port_state:
        IBV_PORT_DOWN
        IBV_PORT_INIT
        IBV_PORT_ACTIVE

    enum ibv_transport_type:
        IBV_TRANSPORT_IB
        IBV_TRANSPORT_IWARP

    enum:
        IBV_LINK_LAYER_UNSPECIFIED
        IBV_LINK_LAYER_INFINIBAND
        IBV_LINK_LAYER_ETHERNET
        IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS
        IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG

    enum ibv_event_type:
        IBV_EVENT_CQ_ERR
        IBV_EVENT_QP_FATAL
        IBV_EVENT_DEVICE_FATAL
        IBV_EVENT_PORT_ERR
        IBV_EVENT_PORT_ACTIVE

    struct ibv_device:
        ibv_transport_type transport_type
        char name[64]

    struct ibv_context:
        ibv_device *device
        int async_fd
        int cmd_fd
        int num_comp_vectors

    struct ibv_pd:
        ibv_context *context

    struct ibv_mr:
        void *addr
        size_t length
        uint32_t lkey
        uint32_t rkey

    struct ibv_comp_channel:
        int fd

    struct ibv_cq:
        int cqe

    struct ibv_qp:
        ibv_context *context
        uint32_t qp_num

    struct ibv_qp_cap:
        uint32_t max_send_wr
        uint32_t max_recv_wr
        uint32_t max_send_sge
        uint32_t max_recv_sge
        uint32_t max_inline_data

    struct ibv_qp_init_attr:
        void *qp_context
        ibv_cq *send_cq
        ibv_cq *recv_cq
        ibv_qp_cap cap
        ibv_qp_type qp_type
        int sq_sig_all

    struct ibv_qp_attr:
        ibv_qp_state qp_state
        ibv_qp_cap cap
        uint8_t max_rd_atomic
        uint8_t timeout

    struct ibv_device_attr:
        char fw_ver[64]
        uint64_t node_guid      # in the order of the network
        uint64_t max_mr_size
        uint32_t vendor_id
        uint32_t vendor_part_id
        uint32_t hw_ver
        int max_qp
        int max_qp_wr
        int max_sge
        int max_sge_rd
        int max_cq
        int max_cqe
        int max_mr
        int max_pd
        int max_qp_rd_atom
        int max_qp_init_rd_atom
        uint8_t phys_port_cnt

    struct ibv_port_attr:
        ibv_port_state state
        int max_mtu
        int active_mtu
        int gid_tbl_len
        uint32_t max_msg_sz
        uint8_t link_layer
        uint8_t active_width
        uint8_t active_speed
        uint16_t lid

    struct ibv_gid_global:
        uint64_t subnet_prefix
        uint64_t interface_id

    union ibv_gid:
        uint8_t raw[16]

    struct ibv_gid_entry:
        ibv_gid gid
        uint32_t gid_index
        uint32_t port_num
        uint32_t gid_type
        uint32_t ndev_ifindex

    struct ibv_sge:
        uint64_t addr
        uint32_t length
        uint32_t lkey

    struct ibv_send_wr:
        uint64_t wr_id
        ibv_send_wr *next
        ibv_sge *sg_list
        int num_sge
        ibv_wr_opcode opcode
        unsigned int send_flags

    struct ibv_recv_wr:
        uint64_t wr_id
        ibv_recv_wr *next
        ibv_sge *sg_list
        int num_sge

    struct ibv_wc:
        uint64_t wr_id
        ibv_wc_status status
        ibv_wc_opcode opcode
        uint32_t byte_len
        uint32_t qp_num

    struct ibv_async_event:
        ibv_event_type event_type

    int ibv_post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad)
    int ibv_post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad)
    int ibv_poll_cq(ibv_cq *cq, int count, ibv_wc *out)
    int ibv_req_notify_cq(ibv_cq *cq, int solicited_only)
    # Remote side of a READ or WRITE.
    void verbs_set_remote(ibv_send_wr *wr, uint64_t address, uint32_t key)
