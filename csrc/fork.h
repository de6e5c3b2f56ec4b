/* How often this process and its ancestors since the first use have forked.
 *
 * getpid() is a system call; a counter that fork() itself advances in the child costs a load.
 * Written only between fork and its return in the child, when there is one thread. */
#ifndef PYRDV_FORK_H
#define PYRDV_FORK_H

#include <pthread.h>

static unsigned fork_count;

static void fork_in_child(void) { fork_count++; }

static inline int fork_watch(void) { return pthread_atfork(NULL, NULL, fork_in_child); }

static inline const unsigned *fork_counter(void) { return &fork_count; }

#endif
