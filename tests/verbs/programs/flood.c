/*
 * Connects to a listener as fast as it can, with noise for a greeting, until it is killed.
 *
 * flood SOURCE ADDRESS PORT: IPv4.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

enum { AT_ONCE = 48, NOISE = 56, WAIT_MS = 2000 };

static struct sockaddr_in source, target;
static struct rdma_event_channel *channel;

static void begin(void) {
    struct rdma_cm_id *id;
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
        return;
    if (rdma_resolve_addr(id, (struct sockaddr *)&source, (struct sockaddr *)&target, WAIT_MS))
        rdma_destroy_id(id);
}

static int request(struct rdma_cm_id *id) {
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    struct rdma_conn_param parameter = {.responder_resources = 1, .initiator_depth = 1};
    char noise[NOISE];
    for (int i = 0; i < NOISE; i++)
        noise[i] = (char)rand();
    parameter.private_data = noise;
    parameter.private_data_len = NOISE;
    return rdma_create_qp(id, NULL, &attr) || rdma_connect(id, &parameter);
}

static void end(struct rdma_cm_id *id) {
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
    begin();
}

static void handle(struct rdma_cm_id *id, enum rdma_cm_event_type event) {
    if (event == RDMA_CM_EVENT_ADDR_RESOLVED) {
        if (rdma_resolve_route(id, WAIT_MS))
            end(id);
    } else if (event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
        if (request(id))
            end(id);
    } else {
        end(id);
    }
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    source.sin_family = target.sin_family = AF_INET;
    inet_pton(AF_INET, words[1], &source.sin_addr);
    inet_pton(AF_INET, words[2], &target.sin_addr);
    target.sin_port = htons((unsigned short)atoi(words[3]));
    channel = rdma_create_event_channel();
    if (!channel) {
        perror("rdma_create_event_channel");
        return 1;
    }
    for (int i = 0; i < AT_ONCE; i++)
        begin();
    for (;;) {
        struct rdma_cm_event *event;
        if (rdma_get_cm_event(channel, &event)) {
            perror("rdma_get_cm_event");
            return 1;
        }
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type kind = event->event;
        rdma_ack_cm_event(event);
        handle(id, kind);
    }
}
