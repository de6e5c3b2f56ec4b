/* libibverbs and librdmacm, opened at run time.
 *
 * The modules are built against rdma-core's headers but linked with none of its
 * libraries, so that one wheel imports on machines without them.  `verbs_open`
 * fills a table of the functions used; the calls of the data path
 * (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) are static
 * inline in the headers and go through the device's own table.
 */
#ifndef PYRDV_VERBS_SHIM_H
#define PYRDV_VERBS_SHIM_H

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The headers hide some functions behind macros of their names; here the functions are wanted. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

/* Exported functions of libibverbs.so.1. */
#define IBVERBS_CALLS(X)                                                                           \
    X(ibv_get_device_list)                                                                         \
    X(ibv_free_device_list)                                                                        \
    X(ibv_get_device_name)                                                                         \
    X(ibv_open_device)                                                                             \
    X(ibv_close_device)                                                                            \
    X(ibv_query_device)                                                                            \
    X(ibv_query_port)                                                                              \
    X(ibv_query_gid)                                                                               \
    X(ibv_alloc_pd)                                                                                \
    X(ibv_dealloc_pd)                                                                              \
    X(ibv_reg_mr)                                                                                  \
    X(ibv_dereg_mr)                                                                                \
    X(ibv_create_comp_channel)                                                                     \
    X(ibv_destroy_comp_channel)                                                                    \
    X(ibv_create_cq)                                                                               \
    X(ibv_destroy_cq)                                                                              \
    X(ibv_get_cq_event)                                                                            \
    X(ibv_ack_cq_events)                                                                           \
    X(ibv_get_async_event)                                                                         \
    X(ibv_ack_async_event)                                                                         \
    X(ibv_modify_qp)                                                                               \
    X(ibv_query_qp)                                                                                \
    X(ibv_fork_init)                                                                               \
    X(ibv_wc_status_str)                                                                           \
    X(ibv_event_type_str)                                                                          \
    X(ibv_create_qp)                                                                               \
    X(ibv_destroy_qp)

/* Those that older rdma-core does not have: NULL then. */
#define IBVERBS_OPTIONAL(X)                                                                        \
    X(ibv_query_qp_data_in_order)                                                                  \
    X(_ibv_query_gid_table)

/* Exported functions of librdmacm.so.1. */
#define RDMACM_CALLS(X)                                                                            \
    X(rdma_create_event_channel)                                                                   \
    X(rdma_destroy_event_channel)                                                                  \
    X(rdma_create_id)                                                                              \
    X(rdma_destroy_id)                                                                             \
    X(rdma_bind_addr)                                                                              \
    X(rdma_resolve_addr)                                                                           \
    X(rdma_resolve_route)                                                                          \
    X(rdma_listen)                                                                                 \
    X(rdma_connect)                                                                                \
    X(rdma_accept)                                                                                 \
    X(rdma_reject)                                                                                 \
    X(rdma_disconnect)                                                                             \
    X(rdma_create_qp)                                                                              \
    X(rdma_destroy_qp)                                                                             \
    X(rdma_get_cm_event)                                                                           \
    X(rdma_ack_cm_event)                                                                           \
    X(rdma_event_str)                                                                              \
    X(rdma_get_src_port)                                                                           \
    X(rdma_set_option)                                                                             \
    X(rdma_migrate_id)

#define VERBS_FIELD(name) __typeof__(name) *name;

struct verbs_calls {
    IBVERBS_CALLS(VERBS_FIELD)
    IBVERBS_OPTIONAL(VERBS_FIELD)
    RDMACM_CALLS(VERBS_FIELD)
    char problem[256]; /* why the table is not filled; empty: it is */
};

#undef VERBS_FIELD

static inline void *verbs_symbol(struct verbs_calls *calls, void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL && calls->problem[0] == '\0')
        snprintf(calls->problem, sizeof(calls->problem),
                 "%s is missing: install rdma-core 36 or newer", name);
    return found;
}

static inline void *verbs_library(struct verbs_calls *calls, const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && calls->problem[0] == '\0') {
        const char *why = dlerror();
        snprintf(calls->problem, sizeof(calls->problem), "%s cannot be opened (%s)", name,
                 why != NULL ? why : "no reason given");
    }
    return library;
}

/* Fills the table; 0, or -1 with a text in `problem`.  The libraries stay open for good. */
static inline int verbs_open(struct verbs_calls *calls) {
    void *ibverbs, *rdmacm;
    memset(calls, 0, sizeof(*calls));
    ibverbs = verbs_library(calls, "libibverbs.so.1");
    rdmacm = ibverbs != NULL ? verbs_library(calls, "librdmacm.so.1") : NULL;
    if (rdmacm == NULL)
        return -1;
#define VERBS_LOAD(name) *(void **)&calls->name = verbs_symbol(calls, ibverbs, #name);
#define VERBS_TRY(name) *(void **)&calls->name = dlsym(ibverbs, #name);
#define RDMACM_LOAD(name) *(void **)&calls->name = verbs_symbol(calls, rdmacm, #name);
    IBVERBS_CALLS(VERBS_LOAD)
    IBVERBS_OPTIONAL(VERBS_TRY)
    RDMACM_CALLS(RDMACM_LOAD)
#undef VERBS_LOAD
#undef VERBS_TRY
#undef RDMACM_LOAD
    return calls->problem[0] == '\0' ? 0 : -1;
}

/* Before any registration: makes fork() safe for the parent.  Newer kernels copy registered pages
   for the child at once; only on others is the child deprived of them, and of whatever else lies on
   them, which can be fatal to it. */
static inline void verbs_prepare_for_fork(struct verbs_calls *calls) {
    enum ibv_fork_status (*asked)(void);
    void *ibverbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    *(void **)&asked = ibverbs != NULL ? dlsym(ibverbs, "ibv_is_fork_initialized") : NULL;
    if (asked == NULL || asked() != IBV_FORK_UNNEEDED)
        calls->ibv_fork_init();
}

/* Unions of the work request, flattened: Cython knows no anonymous ones. */
static inline void verbs_set_remote(struct ibv_send_wr *wr, uint64_t address, uint32_t key) {
    wr->wr.rdma.remote_addr = address;
    wr->wr.rdma.rkey = key;
}

/* The header's ibv_query_port, with the exported function taken from the table. */
static inline int verbs_query_port(const struct verbs_calls *calls, struct ibv_context *context,
                                   uint8_t port, struct ibv_port_attr *out) {
    struct verbs_context *extended = verbs_get_ctx_op(context, query_port);
    memset(out, 0, sizeof(*out));
    if (extended != NULL)
        return extended->query_port(context, port, out, sizeof(*out));
    __typeof__(calls->ibv_query_port) query = calls->ibv_query_port;
    return query(context, port, (struct _compat_ibv_port_attr *)out);
}

#endif
