/* Handing one file descriptor over a Unix socket together with a message. */
#ifndef PYRDV_HANDOVER_H
#define PYRDV_HANDOVER_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes sent, or -1 with errno.  Never blocks. */
static inline ssize_t handover_send(int socket, const void *data, size_t length, int fd) {
    struct iovec part = {(void *)data, length};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {0};
    memset(&control, 0, sizeof control);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.space;
    message.msg_controllen = sizeof control.space;
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(item), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Look at the first message of a socket, which stays there: its bytes, or -1 with
 * errno; *fd is a copy of the one descriptor that came with it, or -1.  If there
 * came more than one, or more bytes than fit, all are closed and the result is 0.
 * If one came and this process has no room for it, *fd is -1 and errno says why;
 * errno is as before otherwise.  Never blocks. */
static inline ssize_t handover_peek(int socket, void *data, size_t room, int *fd) {
    struct iovec part = {data, room};
    union {
        char space[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {0};
    int count = 0, bad, got[8];
    *fd = -1;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.space;
    message.msg_controllen = sizeof control.space;
    ssize_t length = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0)
        return -1;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item != NULL;
         item = CMSG_NXTHDR(&message, item)) {
        if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS)
            continue;
        int here = (int)((item->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < here && count < 8; i++)
            memcpy(&got[count++], CMSG_DATA(item) + i * sizeof(int), sizeof(int));
    }
    if (count == 0 && (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == MSG_CTRUNC) {
        /* The kernel does not say why: is it the number of descriptors? */
        int spare = fcntl(socket, F_DUPFD_CLOEXEC, 0);
        if (spare < 0)
            return length;
        close(spare);
        errno = EACCES; /* a security module */
        return length;
    }
    bad = count > 1 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    if (!bad) {
        if (count)
            *fd = got[0];
        return length;
    }
    while (count)
        close(got[--count]);
    return 0;
}

/* Remove the message that handover_peek has seen. */
static inline void handover_done(int socket) {
    char byte;
    while (recv(socket, &byte, 1, MSG_DONTWAIT) < 0 && errno == EINTR)
        ;
}

#endif
