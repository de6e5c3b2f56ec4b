# cython: language_level=3
"""The table of functions of libibverbs and librdmacm, filled once by ``load``."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from pyrdv.fabrics.verbs.libibverbs cimport (
    ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr,
    ibv_event_type, ibv_gid, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr,
    ibv_qp_init_attr, ibv_wc_status, ibv_wr_opcode)
from pyrdv.fabrics.verbs.librdmacm cimport (
    rdma_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_conn_param, rdma_event_channel,
    rdma_port_space, sockaddr)


cdef extern from "verbs_shim.h" nogil:
    struct verbs_calls:
        ibv_device **(*ibv_get_device_list)(int *count) noexcept nogil
        void (*ibv_free_device_list)(ibv_device **list) noexcept nogil
        const char *(*ibv_get_device_name)(ibv_device *device) noexcept nogil
        ibv_context *(*ibv_open_device)(ibv_device *device) noexcept nogil
        int (*ibv_close_device)(ibv_context *context) noexcept nogil
        int (*ibv_query_device)(ibv_context *context, ibv_device_attr *out) noexcept nogil
        # The old entry point: fills what ibv_port_attr had at first, without flags.
        int (*ibv_query_port)(ibv_context *context, uint8_t port, void *out) noexcept nogil
        int (*ibv_query_gid)(ibv_context *context, uint8_t port, int index,
                             ibv_gid *out) noexcept nogil
        ibv_pd *(*ibv_alloc_pd)(ibv_context *context) noexcept nogil
        int (*ibv_dealloc_pd)(ibv_pd *pd) noexcept nogil
        ibv_mr *(*ibv_reg_mr)(ibv_pd *pd, void *address, size_t length, int access) noexcept nogil
        int (*ibv_dereg_mr)(ibv_mr *mr) noexcept nogil
        ibv_comp_channel *(*ibv_create_comp_channel)(ibv_context *context) noexcept nogil
        int (*ibv_destroy_comp_channel)(ibv_comp_channel *channel) noexcept nogil
        ibv_cq *(*ibv_create_cq)(ibv_context *context, int entries, void *user,
                                 ibv_comp_channel *channel, int vector) noexcept nogil
        int (*ibv_destroy_cq)(ibv_cq *cq) noexcept nogil
        int (*ibv_get_cq_event)(ibv_comp_channel *channel, ibv_cq **cq, void **user) noexcept nogil
        void (*ibv_ack_cq_events)(ibv_cq *cq, unsigned int count) noexcept nogil
        int (*ibv_get_async_event)(ibv_context *context, ibv_async_event *out) noexcept nogil
        void (*ibv_ack_async_event)(ibv_async_event *event) noexcept nogil
        int (*ibv_modify_qp)(ibv_qp *qp, ibv_qp_attr *attr, int mask) noexcept nogil
        int (*ibv_query_qp)(ibv_qp *qp, ibv_qp_attr *attr, int mask,
                            ibv_qp_init_attr *init) noexcept nogil
        ibv_qp *(*ibv_create_qp)(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept nogil
        int (*ibv_destroy_qp)(ibv_qp *qp) noexcept nogil
        int (*ibv_fork_init)() noexcept nogil
        const char *(*ibv_wc_status_str)(ibv_wc_status status) noexcept nogil
        const char *(*ibv_event_type_str)(ibv_event_type event) noexcept nogil
        # NULL where rdma-core does not have them.
        int (*ibv_query_qp_data_in_order)(ibv_qp *qp, ibv_wr_opcode op,
                                          uint32_t flags) noexcept nogil
        ssize_t (*_ibv_query_gid_table)(ibv_context *context, ibv_gid_entry *out, size_t room,
                                        uint32_t flags, size_t entry_size) noexcept nogil
        rdma_event_channel *(*rdma_create_event_channel)() noexcept nogil
        void (*rdma_destroy_event_channel)(rdma_event_channel *channel) noexcept nogil
        int (*rdma_create_id)(rdma_event_channel *channel, rdma_cm_id **out, void *context,
                              rdma_port_space space) noexcept nogil
        int (*rdma_destroy_id)(rdma_cm_id *id) noexcept nogil
        int (*rdma_bind_addr)(rdma_cm_id *id, sockaddr *address) noexcept nogil
        int (*rdma_resolve_addr)(rdma_cm_id *id, sockaddr *source, sockaddr *target,
                                 int timeout_ms) noexcept nogil
        int (*rdma_resolve_route)(rdma_cm_id *id, int timeout_ms) noexcept nogil
        int (*rdma_listen)(rdma_cm_id *id, int backlog) noexcept nogil
        int (*rdma_connect)(rdma_cm_id *id, rdma_conn_param *param) noexcept nogil
        int (*rdma_accept)(rdma_cm_id *id, rdma_conn_param *param) noexcept nogil
        int (*rdma_reject)(rdma_cm_id *id, const void *data, uint8_t length) noexcept nogil
        int (*rdma_disconnect)(rdma_cm_id *id) noexcept nogil
        int (*rdma_create_qp)(rdma_cm_id *id, ibv_pd *pd, ibv_qp_init_attr *attr) noexcept nogil
        void (*rdma_destroy_qp)(rdma_cm_id *id) noexcept nogil
        int (*rdma_get_cm_event)(rdma_event_channel *channel, rdma_cm_event **out) noexcept nogil
        int (*rdma_ack_cm_event)(rdma_cm_event *event) noexcept nogil
        const char *(*rdma_event_str)(rdma_cm_event_type event) noexcept nogil
        uint16_t (*rdma_get_src_port)(rdma_cm_id *id) noexcept nogil
        int (*rdma_set_option)(rdma_cm_id *id, int level, int name, void *value,
                               size_t length) noexcept nogil
        int (*rdma_migrate_id)(rdma_cm_id *id, rdma_event_channel *channel) noexcept nogil
        char problem[256]
    int verbs_open(verbs_calls *calls)
    void verbs_prepare_for_fork(verbs_calls *calls)
    int verbs_query_port(const verbs_calls *calls, ibv_context *context, uint8_t port,
                         ibv_port_attr *out)


# Any thread.  The table; its entries may be called once `load` has returned.
cdef const verbs_calls *verbs_table() noexcept nogil
