/* A descriptor that signals a thread by itself whenever something comes. */
#ifndef PYRDV_SIGNALS_H
#define PYRDV_SIGNALS_H

#include <fcntl.h>
#include <poll.h>

/* What comes on `fd` from now on sends `signal`, with the descriptor in si_fd, to `thread` of this
 * process; 0: to nobody.  0, or -1: it is of a kind that cannot.  Safe in a handler, but for errno.
 * The description is shared with forked children, which therefore never call this. */
static inline int descriptor_signals(int fd, int thread, int signal) {
    struct f_owner_ex owner = {F_OWNER_TID, thread};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETOWN_EX, &owner) != 0)
        return -1;
    if (!thread)
        return fcntl(fd, F_SETFL, flags & ~O_ASYNC) < 0 ? -1 : 0;
    if (fcntl(fd, F_SETSIG, signal) != 0 || fcntl(fd, F_SETFL, flags | O_ASYNC) < 0)
        return -1;
    return (fcntl(fd, F_GETFL) & O_ASYNC) ? 0 : -1;
}

static inline int descriptor_readable(int fd) {
    struct pollfd which = {fd, POLLIN, 0};
    return poll(&which, 1, 0) == 1;
}

#endif
