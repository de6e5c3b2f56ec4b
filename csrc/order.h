/* Memory ordering between processes, named by what each operation orders.
 *
 * Pairs (each side names its partner):
 *   publish*  -> observe*   everything written before publish is seen after an
 *                           observe that read the published value
 *   claim64   -> claim64    what one winner of a claim word wrote before is
 *                           seen by the next winner
 *   announce_then_look()    on both sides of a sleep/wake decision: my earlier
 *                           store is visible before my later load is made, so
 *                           that of two sides at least one sees the other
 *   note*, adjust32 -> glance*
 *                           order nothing; the value is only a hint, or is checked
 *                           by a later claim or again under the lock under which
 *                           it is written
 */
#ifndef PYRDV_ORDER_H
#define PYRDV_ORDER_H

#include <stdint.h>

static inline void publish32(uint32_t *where, uint32_t value) {
    __atomic_store_n(where, value, __ATOMIC_RELEASE);
}

static inline void publish64(uint64_t *where, uint64_t value) {
    __atomic_store_n(where, value, __ATOMIC_RELEASE);
}

static inline uint32_t observe32(const uint32_t *where) {
    return __atomic_load_n(where, __ATOMIC_ACQUIRE);
}

static inline uint64_t observe64(const uint64_t *where) {
    return __atomic_load_n(where, __ATOMIC_ACQUIRE);
}

static inline uint8_t glance8(const uint8_t *where) {
    return __atomic_load_n(where, __ATOMIC_RELAXED);
}

static inline uint32_t glance32(const uint32_t *where) {
    return __atomic_load_n(where, __ATOMIC_RELAXED);
}

static inline uint64_t glance64(const uint64_t *where) {
    return __atomic_load_n(where, __ATOMIC_RELAXED);
}

static inline void note8(uint8_t *where, uint8_t value) {
    __atomic_store_n(where, value, __ATOMIC_RELAXED);
}

static inline void note32(uint32_t *where, uint32_t value) {
    __atomic_store_n(where, value, __ATOMIC_RELAXED);
}

static inline void note64(uint64_t *where, uint64_t value) {
    __atomic_store_n(where, value, __ATOMIC_RELAXED);
}

/* Adds, where only the holder of a lock writes and others glance: no locked instruction. */
static inline void adjust32(uint32_t *where, int32_t amount) {
    note32(where, *where + (uint32_t)amount);
}

/* 1 if `where` held `expected` and now holds `wanted`. */
static inline int claim64(uint64_t *where, uint64_t expected, uint64_t wanted) {
    return __atomic_compare_exchange_n(where, &expected, wanted, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

/* Adds and returns the new value; orders like publish and observe at once. */
static inline uint32_t add32(uint32_t *where, uint32_t amount) {
    return __atomic_add_fetch(where, amount, __ATOMIC_ACQ_REL);
}

/* Takes the value away and leaves 0; of several takers one gets it. */
static inline uint32_t take32(uint32_t *where) {
    return __atomic_exchange_n(where, 0, __ATOMIC_SEQ_CST);
}

static inline void announce_then_look(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#endif
