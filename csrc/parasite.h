/* A signal that borrows a thread: one private real-time signal of the process, a one-shot timer for
 * each thread that wants to be interrupted, and descriptors that signal by themselves (signals.h).
 *
 * Z1  The signal is one whose action is SIG_DFL when it is first needed.  Nobody else's action is
 *     changed, then or later: whoever takes the signal away keeps it, and `pulse_owned` tells.
 * Z2  The action goes with the last pulse.  Before SIG_DFL, which would end the process, comes
 *     SIG_IGN, which throws away what is still pending.  A forked child has no timers, and its
 *     action is SIG_DFL from the start.
 * Z3  A pulse is never given back to the system.  A signal may be pending when its timer is
 * deleted, and finds the pulse at rest, or used anew; then it is one beat too many, which does no
 * harm. Z4  After `pulse_rest` no beat runs and none begins: the handler counts itself before it
 * looks whether the pulse is open, and `pulse_rest` closes it before it looks at the count.  Who
 *     calls it holds nothing that a beat would wait for; a beat waits for nothing anyway.
 * Z5  The handler keeps errno.  All other signals but those of faults wait until it is left, so no
 *     other handler runs while it holds a lock.  It runs on the stack of whom it interrupts, never
 *     on an alternate one, and a thread that is on its own (in a handler of the program) is left
 *     alone, for such stacks may be small.
 * Z6  The signal of a descriptor names none of ours, so it is a beat of every open pulse of its
 *     thread; one too many does no harm.  Where the queue of signals is full (RLIMIT_SIGPENDING)
 *     the kernel sends SIGIO in its place, whose default action ends the process.  So `pulse_guard`
 *     takes SIGIO, too, if nobody has it; Z1 and Z2 hold for it. */
#ifndef PYRDV_PARASITE_H
#define PYRDV_PARASITE_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "ticks.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

typedef struct pulse pulse_t;

struct pulse {
    pulse_t *older;   /* list of all; written once */
    pulse_t *resting; /* list of those that nobody uses */
    /* In the handler; `barred`: the thread is in a handler of the program on a stack of its own. */
    void (*beat)(pulse_t *self, int barred);
    int timer;  /* the kernel's name: the C library's functions may be in one that is not loaded */
    int number; /* of the signal */
    uint64_t thread; /* as pulse_thread() */
    pid_t tid;
    unsigned forks; /* pulse_forks when it was begun */
    uint32_t open;
    uint32_t within; /* handlers that may be in `beat` */
};

enum {
    PULSE_FIRST = 8,         /* of the real-time signals: the lower ones are what programs take */
    PULSE_TRIES = 5,         /* measurements of a beat's cost */
    PULSE_DELAY = 20000,     /* ns from the start of one to its beat */
    PULSE_PATIENCE = 3000000 /* ns that one may take */
};

static pthread_mutex_t pulse_mutex = PTHREAD_MUTEX_INITIALIZER;
static int pulse_signal; /* 0: none is taken */
static unsigned pulse_users;
static pulse_t *pulse_resting;
static pulse_t *pulse_all;
static unsigned pulse_forks;
static uint64_t pulse_threads;

/* A number of this thread that no other one of the process ever has. */
static inline uint64_t pulse_thread(void) {
    static __thread uint64_t own;
    if (!own)
        own = __atomic_add_fetch(&pulse_threads, 1, __ATOMIC_RELAXED);
    return own;
}

static void pulse_enter(pulse_t *p, int barred) {
    __atomic_add_fetch(&p->within, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->open, __ATOMIC_SEQ_CST))
        p->beat(p, barred);
    __atomic_sub_fetch(&p->within, 1, __ATOMIC_SEQ_CST);
}

static void pulse_handler(int number, siginfo_t *info, void *context) {
    int kept = errno;
    int barred = (((ucontext_t *)context)->uc_stack.ss_flags & SS_ONSTACK) != 0;
    (void)number;
    if (info->si_code == SI_TIMER && info->si_value.sival_ptr) {
        pulse_enter(info->si_value.sival_ptr, barred);
    } else if (info->si_code > 0) { /* only the kernel says so: a descriptor (Z6) */
        uint64_t own = pulse_thread();
        pulse_t *p = __atomic_load_n(&pulse_all, __ATOMIC_ACQUIRE);
        for (; p; p = p->older)
            if (p->thread == own)
                pulse_enter(p, barred);
    }
    errno = kept;
}

static inline int pulse_owns(int number) {
    struct sigaction now;
    return number && sigaction(number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == pulse_handler;
}

/* Whether the action of the signal is still ours. */
static inline int pulse_owned(void) { return pulse_owns(pulse_signal); }

static void pulse_return(int number) {
    struct sigaction none;
    memset(&none, 0, sizeof(none));
    if (pulse_owns(number)) {
        none.sa_handler = SIG_IGN;
        sigaction(number, &none, NULL);
        none.sa_handler = SIG_DFL;
        sigaction(number, &none, NULL);
    }
}

static void pulse_drop(void) {
    pulse_return(pulse_signal);
    pulse_return(SIGIO);
    pulse_signal = 0;
}

static void pulse_in_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&pulse_mutex, &fresh, sizeof(fresh));
    pulse_forks++;
    pulse_users = 0;
    pulse_resting = pulse_all = NULL;
    pulse_drop();
}

static inline int pulse_watch_forks(void) { return pthread_atfork(NULL, NULL, pulse_in_child); }

/* Takes signal `number`, if it has its default action; whether it did. */
static int pulse_take(int number) {
    struct sigaction now, own;
    memset(&own, 0, sizeof(own));
    own.sa_sigaction = pulse_handler;
    own.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&own.sa_mask);
    sigdelset(&own.sa_mask, SIGSEGV);
    sigdelset(&own.sa_mask, SIGBUS);
    sigdelset(&own.sa_mask, SIGFPE);
    sigdelset(&own.sa_mask, SIGILL);
    sigdelset(&own.sa_mask, SIGTRAP);
    sigdelset(&own.sa_mask, SIGABRT);
    return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
           now.sa_handler == SIG_DFL && sigaction(number, &own, NULL) == 0;
}

/* Takes a signal; under the mutex.  0: there is none. */
static int pulse_install(void) {
    int count = SIGRTMAX - SIGRTMIN + 1;
    for (int i = 0; i < count; i++) {
        int number = SIGRTMIN + (PULSE_FIRST + i) % count;
        if (pulse_take(number))
            return pulse_signal = number;
    }
    return 0;
}

/* Descriptors will signal the thread of a pulse that was begun (Z6). */
static inline void pulse_guard(void) {
    pthread_mutex_lock(&pulse_mutex);
    pulse_take(SIGIO);
    pthread_mutex_unlock(&pulse_mutex);
}

/* Has the timer fire once, `ns` from now; 0: not at all.  Safe in a handler. */
static inline void pulse_arm(pulse_t *p, int64_t ns) {
    struct itimerspec when;
    memset(&when, 0, sizeof(when));
    when.it_value.tv_sec = ns / 1000000000;
    when.it_value.tv_nsec = ns % 1000000000;
    syscall(SYS_timer_settime, p->timer, 0, &when, NULL);
}

/* A pulse for this thread, with zeros behind it up to `size` bytes (the same for all users); not
 * open yet.  NULL: the signal is blocked or taken, or the system has no timer or memory left. */
static inline pulse_t *pulse_begin(size_t size) {
    struct sigevent event;
    sigset_t blocked;
    pulse_t *p = NULL;
    if (sizeof(time_t) != sizeof(long))
        return NULL; /* the kernel's structures are others than the C library's */
    pthread_mutex_lock(&pulse_mutex);
    if (!pulse_signal ? !pulse_install() : !pulse_owned())
        goto out;
    if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) || sigismember(&blocked, pulse_signal))
        goto out;
    p = pulse_resting;
    if (p) {
        pulse_resting = p->resting;
    } else {
        p = calloc(1, size);
        if (!p)
            goto out;
        p->older = pulse_all;
        __atomic_store_n(&pulse_all, p, __ATOMIC_RELEASE);
    }
    memset((char *)p + sizeof(*p), 0, size - sizeof(*p));
    memset(&event, 0, sizeof(event));
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = p->number = pulse_signal;
    event.sigev_value.sival_ptr = p;
    p->tid = (pid_t)syscall(SYS_gettid);
    event.sigev_notify_thread_id = p->tid;
    p->thread = pulse_thread();
    p->forks = pulse_forks;
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &p->timer)) {
        p->resting = pulse_resting;
        pulse_resting = p;
        p = NULL;
        goto out;
    }
    pulse_users++;
out:
    if (!pulse_users && pulse_signal)
        pulse_drop();
    pthread_mutex_unlock(&pulse_mutex);
    return p;
}

static inline void pulse_open(pulse_t *p) { __atomic_store_n(&p->open, 1, __ATOMIC_SEQ_CST); }

/* See Z4.  In a forked child only the memory is let go. */
static inline void pulse_rest(pulse_t *p) {
    __atomic_store_n(&p->open, 0, __ATOMIC_SEQ_CST);
    if (p->forks != pulse_forks)
        return;
    syscall(SYS_timer_delete, p->timer);
    while (__atomic_load_n(&p->within, __ATOMIC_SEQ_CST))
        sched_yield();
    pthread_mutex_lock(&pulse_mutex);
    p->resting = pulse_resting;
    pulse_resting = p;
    if (--pulse_users == 0)
        pulse_drop();
    pthread_mutex_unlock(&pulse_mutex);
}

/* Whether the thread of the pulse has ended, as far as can be known. */
static inline int pulse_orphaned(const pulse_t *p) {
    return syscall(SYS_tgkill, getpid(), p->tid, 0) != 0 && errno == ESRCH;
}

/* What a beat costs this thread at least, ns: the longest gap that one tears into a busy loop.
 * PULSE_PATIENCE: none came.  Each beat has to count one in `beats`. */
static inline int64_t pulse_cost(pulse_t *p, const uint32_t *beats) {
    int64_t least = 0;
    for (int i = 0; i < PULSE_TRIES; i++) {
        uint32_t before = __atomic_load_n(beats, __ATOMIC_RELAXED), beaten;
        int64_t begin, last, now, longest = 0;
        begin = last = ticks_clock_ns(); /* a turn arms, too; it may fire before that returns */
        pulse_arm(p, PULSE_DELAY);
        do {
            beaten = __atomic_load_n(beats, __ATOMIC_RELAXED) != before;
            now = ticks_clock_ns(); /* after the look, so that the gap is between two readings */
            if (now - last > longest)
                longest = now - last;
            last = now;
        } while (!beaten && now - begin < PULSE_PATIENCE);
        if (beaten && (!least || longest < least))
            least = longest;
    }
    return least ? least : PULSE_PATIENCE;
}

#endif
