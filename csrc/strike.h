/* The signal of a timer at a chosen point of a thread. */
#ifndef PYRDV_STRIKE_H
#define PYRDV_STRIKE_H

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Whether a timer of the kernel is set. */
static inline int strike_due(int timer) {
    struct itimerspec when;
    return syscall(SYS_timer_gettime, timer, &when) == 0 &&
           (when.it_value.tv_sec || when.it_value.tv_nsec);
}

/* Sends `number` to thread `tid`, the one that runs, as `timer` of `pulse` does when it fires
 * (parasite.h).  The handler has run when this returns.  0, or -1: it could not be sent. */
static inline int strike(int number, int tid, int timer, void *pulse) {
    struct itimerspec none;
    siginfo_t info;
    memset(&none, 0, sizeof(none));
    memset(&info, 0, sizeof(info));
    info.si_signo = number;
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr = pulse;
    syscall(SYS_timer_settime, timer, 0, &none, NULL);
    return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, &info);
}

#endif
