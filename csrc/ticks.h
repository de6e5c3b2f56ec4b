/* Time for waiting loops, read without a system call.
 *
 * The clock is a system call where there is no vDSO, as in User-Mode Linux: microseconds, as much
 * as what the loop waits for.  The processor's counter costs nanoseconds.  Its length is found by
 * comparing the two once.  Counters of different processors may disagree: a difference is only a
 * hint about how long somebody waited. */
#ifndef PYRDV_TICKS_H
#define PYRDV_TICKS_H

#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct {
    uint64_t per_us; /* ticks; a guess until `known` */
    int known;
    uint64_t first_ticks;
    int64_t first_ns;
} ticks_scale;

static inline int64_t ticks_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline uint64_t ticks_now(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    return (uint64_t)ticks_clock_ns();
#endif
}

/* Whether the counter is a clock: it has one rate, whatever the processor does. */
static inline int ticks_are_time(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
#else
    return 1;
#endif
}

/* The clock and the counter at one moment.  Whoever loses the processor between the two readings
 * would be wrong by that time, so the narrowest of a few tries counts. */
static inline void ticks_pair(int64_t *ns, uint64_t *ticks) {
    uint64_t narrowest = UINT64_MAX;
    *ns = 0;
    *ticks = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t before = ticks_now();
        int64_t now = ticks_clock_ns();
        uint64_t width = ticks_now() - before;
        if (width < narrowest) {
            narrowest = width;
            *ns = now;
            *ticks = before + width / 2;
        }
    }
}

static inline void ticks_begin(ticks_scale *scale) {
    scale->per_us = 1000;
    scale->known = 0;
    ticks_pair(&scale->first_ns, &scale->first_ticks);
}

/* Find the length of a tick, once a millisecond has passed since ticks_begin. */
static inline void ticks_learn(ticks_scale *scale) {
    int64_t ns;
    uint64_t ticks;
    if (scale->known)
        return;
    ns = ticks_clock_ns() - scale->first_ns;
    ticks = ticks_now() - scale->first_ticks;
    if (ns < 1000000)
        return;
    /* Had it been read on another processor whose counter is behind, keep the guess. */
    if (ticks >> 62 == 0)
        scale->per_us = (uint64_t)((double)ticks * 1000.0 / (double)ns) + 1;
    scale->known = 1;
}

#endif
