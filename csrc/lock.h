/* The engine's lock: one word, no system call in the common case.
 *
 * Acquire/release pair: engine_lock_try (acquire) with engine_unlock (release).
 * Everything in engine_t, its operations and messages is ordered by it.  A signal handler may
 * only use engine_lock_try: it would wait for the very thread that it interrupted. */
#ifndef PYRDV_LOCK_H
#define PYRDV_LOCK_H

#include <sched.h>
#include <stdint.h>

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static inline int engine_lock_try(uint32_t *lock) {
    return __atomic_exchange_n(lock, 1u, __ATOMIC_ACQUIRE) == 0;
}

static inline void engine_lock(uint32_t *lock) {
    /* The holder does bounded work (R1), so waiting is short unless it was preempted. */
    int spins = 0;
    while (!engine_lock_try(lock)) {
        while (__atomic_load_n(lock, __ATOMIC_RELAXED)) {
            if (++spins < 200) {
                cpu_relax();
            } else {
                sched_yield();
            }
        }
    }
}

static inline void engine_unlock(uint32_t *lock) { __atomic_store_n(lock, 0u, __ATOMIC_RELEASE); }

#endif
