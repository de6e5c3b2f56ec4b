/* A thread that runs no Python and gets no signal. */
#ifndef PYRDV_THREAD_H
#define PYRDV_THREAD_H

#include <pthread.h>
#include <signal.h>

enum { THREAD_STACK = 256 << 10 }; /* bytes */

/* Start `run(argument)`; 0 or an errno.  All signals are blocked in it, but those of faults, which
 * cannot be: a program's handlers run in the threads that the program has made. */
static inline int thread_begin(pthread_t *thread, void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    sigset_t all, before;
    int problem = pthread_attr_init(&attributes);
    if (problem)
        return problem;
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    problem = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!problem)
        pthread_setname_np(*thread, "pyrdv");
    return problem;
}

#endif
