/* Tells of each access to memory that code compiled with -fsanitize=thread makes, just before it is
 * made, in place of the library that belongs to that option.  Loaded before that code, for all to
 * see; `points_tell` says to whom. */
#include <stddef.h>
#include <stdint.h>

static void (*told)(const void *where);

void points_tell(void (*whom)(const void *where)) { told = whom; }

static void tell(const volatile void *where) {
    if (told)
        told((const void *)where);
}

void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}
void __tsan_read_range(void *where, size_t size) {
    (void)size;
    tell(where);
}
void __tsan_write_range(void *where, size_t size) {
    (void)size;
    tell(where);
}

#define PLAIN(kind)                                                                                \
    void __tsan_##kind##1(void *where) { tell(where); }                                            \
    void __tsan_##kind##2(void *where) { tell(where); }                                            \
    void __tsan_##kind##4(void *where) { tell(where); }                                            \
    void __tsan_##kind##8(void *where) { tell(where); }                                            \
    void __tsan_##kind##16(void *where) { tell(where); }

PLAIN(read)
PLAIN(write)
PLAIN(unaligned_read)
PLAIN(unaligned_write)

void __tsan_atomic_thread_fence(int order) {
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* The strongest order will do for all. */
#define ATOMIC(bits)                                                                               \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *where, int order) {   \
        (void)order;                                                                               \
        tell(where);                                                                               \
        return __atomic_load_n(where, __ATOMIC_SEQ_CST);                                           \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *where, uint##bits##_t value,         \
                                     int order) {                                                  \
        (void)order;                                                                               \
        tell(where);                                                                               \
        __atomic_store_n(where, value, __ATOMIC_SEQ_CST);                                          \
    }                                                                                              \
    uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *where,                  \
                                                  uint##bits##_t value, int order) {               \
        (void)order;                                                                               \
        tell(where);                                                                               \
        return __atomic_exchange_n(where, value, __ATOMIC_SEQ_CST);                                \
    }                                                                                              \
    uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t *where,                 \
                                                   uint##bits##_t value, int order) {              \
        (void)order;                                                                               \
        tell(where);                                                                               \
        return __atomic_fetch_add(where, value, __ATOMIC_SEQ_CST);                                 \
    }                                                                                              \
    uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile uint##bits##_t *where,                 \
                                                   uint##bits##_t value, int order) {              \
        (void)order;                                                                               \
        tell(where);                                                                               \
        return __atomic_fetch_sub(where, value, __ATOMIC_SEQ_CST);                                 \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(                                             \
        volatile uint##bits##_t *where, uint##bits##_t *expected, uint##bits##_t value, int order, \
        int otherwise) {                                                                           \
        (void)order;                                                                               \
        (void)otherwise;                                                                           \
        tell(where);                                                                               \
        return __atomic_compare_exchange_n(where, expected, value, 0, __ATOMIC_SEQ_CST,            \
                                           __ATOMIC_SEQ_CST);                                      \
    }

ATOMIC(8)
ATOMIC(32)
ATOMIC(64)
