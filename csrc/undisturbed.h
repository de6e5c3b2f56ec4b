/* A system call that no signal of the program may cut short. */
#ifndef PYRDV_UNDISTURBED_H
#define PYRDV_UNDISTURBED_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/* Block all signals in this thread but those that end a program, or tell of its own faults, until
 * `undisturbed_ends` gets what `kept` holds.  Neither changes errno. */
static inline void undisturbed_begins(sigset_t *kept) {
    static const int open[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP,  SIGABRT, SIGSEGV,
                               SIGBUS, SIGFPE,  SIGILL,  SIGTRAP, SIGSYS};
    sigset_t blocked;
    unsigned i;
    int error = errno;
    sigfillset(&blocked);
    for (i = 0; i < sizeof open / sizeof *open; i++)
        sigdelset(&blocked, open[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, kept);
    errno = error;
}

static inline void undisturbed_ends(const sigset_t *kept) {
    int error = errno;
    pthread_sigmask(SIG_SETMASK, kept, NULL);
    errno = error;
}

#endif
