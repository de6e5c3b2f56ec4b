#include "reduce.h"

#include <stdint.h>
#include <string.h>

/* Elements may stand anywhere: a message is a view of bytes.  The compiler turns loads and stores
 * by memcpy into plain ones, and vectorizes them. */
#define LOOP(name, type, expression)                                                               \
    static void name##_left(const char *restrict from, char *restrict into, size_t n) {            \
        for (size_t i = 0; i < n; i++) {                                                           \
            type a, b, r;                                                                          \
            memcpy(&a, from + i * sizeof(type), sizeof(type));                                     \
            memcpy(&b, into + i * sizeof(type), sizeof(type));                                     \
            expression;                                                                            \
            memcpy(into + i * sizeof(type), &r, sizeof(type));                                     \
        }                                                                                          \
    }                                                                                              \
    static void name##_right(const char *restrict from, char *restrict into, size_t n) {           \
        for (size_t i = 0; i < n; i++) {                                                           \
            type a, b, r;                                                                          \
            memcpy(&a, into + i * sizeof(type), sizeof(type));                                     \
            memcpy(&b, from + i * sizeof(type), sizeof(type));                                     \
            expression;                                                                            \
            memcpy(into + i * sizeof(type), &r, sizeof(type));                                     \
        }                                                                                          \
    }

/* Integers of one size: but for their order, the sign does not matter.  `wide` has no sign and is
 * not shorter than an int, so nothing overflows. */
#define INTEGERS(bits, wide)                                                                       \
    LOOP(max_i##bits, int##bits##_t, r = a > b ? a : b)                                            \
    LOOP(min_i##bits, int##bits##_t, r = a < b ? a : b)                                            \
    LOOP(max_u##bits, uint##bits##_t, r = a > b ? a : b)                                           \
    LOOP(min_u##bits, uint##bits##_t, r = a < b ? a : b)                                           \
    LOOP(sum_u##bits, uint##bits##_t, r = (uint##bits##_t)((wide)a + (wide)b))                     \
    LOOP(prod_u##bits, uint##bits##_t, r = (uint##bits##_t)((wide)a * (wide)b))                    \
    LOOP(land_u##bits, uint##bits##_t, r = (a != 0) & (b != 0))                                    \
    LOOP(lor_u##bits, uint##bits##_t, r = (a | b) != 0)                                            \
    LOOP(lxor_u##bits, uint##bits##_t, r = (a != 0) ^ (b != 0))                                    \
    LOOP(band_u##bits, uint##bits##_t, r = a & b)                                                  \
    LOOP(bor_u##bits, uint##bits##_t, r = a | b)                                                   \
    LOOP(bxor_u##bits, uint##bits##_t, r = a ^ b)

/* `|`, for a branch would keep the loop from being vectorized. */
#define FLOATS(suffix, type)                                                                       \
    LOOP(max_##suffix, type, r = (a >= b) | (a != a) ? a : b)                                      \
    LOOP(min_##suffix, type, r = (a <= b) | (a != a) ? a : b)                                      \
    LOOP(sum_##suffix, type, r = a + b)                                                            \
    LOOP(prod_##suffix, type, r = a * b)

/* The textbook product, as NumPy's, without the checks of C for infinities. */
#define COMPLEX(suffix, type)                                                                      \
    typedef struct {                                                                               \
        type re, im;                                                                               \
    } complex_##suffix;                                                                            \
    LOOP(sum_##suffix, complex_##suffix, (r.re = a.re + b.re, r.im = a.im + b.im))                 \
    LOOP(prod_##suffix, complex_##suffix,                                                          \
         (r.re = a.re * b.re - a.im * b.im, r.im = a.re * b.im + a.im * b.re))

INTEGERS(8, uint32_t)
INTEGERS(16, uint32_t)
INTEGERS(32, uint32_t)
INTEGERS(64, uint64_t)
FLOATS(f4, float)
FLOATS(f8, double)
COMPLEX(c4, float)
COMPLEX(c8, double)

#define BOTH(name) {name##_left, name##_right}
#define NONE {NULL, NULL}
#define ON_INTEGERS(bits, sign)                                                                    \
    {BOTH(max_##sign##bits), BOTH(min_##sign##bits), BOTH(sum_u##bits),  BOTH(prod_u##bits),       \
     BOTH(land_u##bits),     BOTH(lor_u##bits),      BOTH(lxor_u##bits), BOTH(band_u##bits),       \
     BOTH(bor_u##bits),      BOTH(bxor_u##bits)}

static const struct {
    char kind;
    int size;
    reduce_t loops[REDUCE_OPS][2];
} TYPES[] = {
    {'b', 1, {NONE, NONE, NONE, NONE, BOTH(land_u8), BOTH(lor_u8), BOTH(lxor_u8)}},
    {'i', 1, ON_INTEGERS(8, i)},
    {'i', 2, ON_INTEGERS(16, i)},
    {'i', 4, ON_INTEGERS(32, i)},
    {'i', 8, ON_INTEGERS(64, i)},
    {'u', 1, ON_INTEGERS(8, u)},
    {'u', 2, ON_INTEGERS(16, u)},
    {'u', 4, ON_INTEGERS(32, u)},
    {'u', 8, ON_INTEGERS(64, u)},
    {'f', 4, {BOTH(max_f4), BOTH(min_f4), BOTH(sum_f4), BOTH(prod_f4)}},
    {'f', 8, {BOTH(max_f8), BOTH(min_f8), BOTH(sum_f8), BOTH(prod_f8)}},
    {'c', 8, {NONE, NONE, BOTH(sum_c4), BOTH(prod_c4)}},
    {'c', 16, {NONE, NONE, BOTH(sum_c8), BOTH(prod_c8)}},
};

reduce_t reduce_find(int op, char kind, int size, int right) {
    for (size_t i = 0; op >= 0 && op < REDUCE_OPS && i < sizeof(TYPES) / sizeof(TYPES[0]); i++) {
        if (TYPES[i].kind == kind && TYPES[i].size == size) {
            return TYPES[i].loops[op][right != 0];
        }
    }
    return NULL;
}
