/* SipHash-2-4 with 128 bits of output: a keyed checksum of short messages.
 *
 * Jean-Philippe Aumasson and Daniel J. Bernstein, "SipHash: a fast short-input
 * PRF", 2012, with the double-length output of the authors' reference.  The
 * verbs fabric authenticates its handshake with it (docs/wire.md, verbs); the
 * key is 16 secret bytes.
 */
#ifndef PYRDV_SIPHASH_H
#define PYRDV_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SIPHASH_KEY = 16, SIPHASH_BYTES = 16 };

struct siphash_state {
    uint64_t a, b, c, d;
};

static inline uint64_t siphash_turn(uint64_t value, int bits) {
    return value << bits | value >> (64 - bits);
}

static inline uint64_t siphash_load(const uint8_t *from, size_t count) {
    uint64_t value = 0;
    size_t i;
    for (i = 0; i < count; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static inline void siphash_store(uint8_t *to, uint64_t value) {
    int i;
    for (i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static inline void siphash_rounds(struct siphash_state *s, int count) {
    while (count-- > 0) {
        s->a += s->b;
        s->c += s->d;
        s->b = siphash_turn(s->b, 13) ^ s->a;
        s->d = siphash_turn(s->d, 16) ^ s->c;
        s->a = siphash_turn(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = siphash_turn(s->b, 17) ^ s->c;
        s->d = siphash_turn(s->d, 21) ^ s->a;
        s->c = siphash_turn(s->c, 32);
    }
}

static inline void siphash_absorb(struct siphash_state *s, uint64_t word) {
    s->d ^= word;
    siphash_rounds(s, 2);
    s->a ^= word;
}

/* `out` gets SIPHASH_BYTES bytes; `key` has SIPHASH_KEY. */
static inline void siphash(const uint8_t *key, const void *data, size_t length, uint8_t *out) {
    const uint8_t *at = (const uint8_t *)data;
    const uint64_t low = siphash_load(key, 8), high = siphash_load(key + 8, 8);
    /* The initial constants spell "somepseudorandomlygeneratedbytes". */
    struct siphash_state s = {low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d ^ 0xee,
                              low ^ 0x6c7967656e657261, high ^ 0x7465646279746573};
    size_t left = length;
    for (; left >= 8; left -= 8, at += 8)
        siphash_absorb(&s, siphash_load(at, 8));
    siphash_absorb(&s, siphash_load(at, left) | (uint64_t)length << 56);
    s.c ^= 0xee;
    siphash_rounds(&s, 4);
    siphash_store(out, s.a ^ s.b ^ s.c ^ s.d);
    s.b ^= 0xdd;
    siphash_rounds(&s, 4);
    siphash_store(out + 8, s.a ^ s.b ^ s.c ^ s.d);
}

/* Whether two checksums agree; the time taken tells nothing. */
static inline int siphash_same(const uint8_t *left, const uint8_t *right) {
    uint8_t different = 0;
    int i;
    for (i = 0; i < SIPHASH_BYTES; i++)
        different |= (uint8_t)(left[i] ^ right[i]);
    return different == 0;
}

#endif
