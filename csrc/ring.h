/* Layout of the shared memory of one channel of the shm fabric.
 *
 * A channel carries packets one way, from its producer (who created the
 * memory) to its consumer.  It is shared by two processes that run the same
 * version; all values are in host byte order.
 *
 * L1  Every word has one writer at a time; words of different writers are at
 *     least 128 bytes apart (two lines: the prefetcher fetches pairs).
 * L2  The consumer takes nothing from this memory on trust but the bytes of
 *     packets: positions are counted privately on both sides, lengths are
 *     read once and checked.  So a broken peer can spoil its own channel only.
 * L3  A slot is free until its stamp is (its index + 1); the stamp is the last
 *     word written.  It differs in every lap, so nothing is ever cleared.
 * L4  A packet that does not fit into a slot lies in the bulk area at the
 *     place that shm_bulk_place() gives on both sides.  Bulk is freed in order.
 */
#ifndef PYRDV_RING_H
#define PYRDV_RING_H

#include "order.h"
#include <stdint.h>

#define SHM_MAGIC 0x314d485356445250ull /* "PRDVSHM1" */
#define SHM_VERSION 4u

enum {
    SHM_SLOTS = 128,
    SHM_INLINE = 120,
    SHM_BULK_MIN = 32768,
    SHM_PACKET_LIMIT = 65536 + 64, /* larger messages are better read in single copy */
    SHM_JOBS = 16,
    SHM_CELLS = 8,
    SHM_CELL = 8192,
    SHM_TAIL = 56,
    SHM_CHUNK_MIN = 65536,  /* below, the fixed 2 us of a copy call show */
    SHM_CHUNK_MAX = 262144, /* 24 us touched, 125 us untouched: one step of work */
};

enum { SHM_KIND_INLINE = 1, SHM_KIND_BULK = 2 };

struct shm_slot {
    uint32_t stamp;
    uint32_t word; /* kind << 24 | length */
    unsigned char data[SHM_INLINE];
};

/* A transfer of the producer that the consumer may help with.
 * claim: generation << 36 | chunks << 18 | next.  The number of chunks is part
 * of the word so that whether a chunk is left is decided by the same load that
 * the claim checks: a helper that sees an old word loses the claim, whatever it
 * read from the other fields. */
struct shm_job {
    uint64_t claim;
    uint64_t producer_address;
    uint64_t consumer_address;
    uint64_t length;
    uint32_t chunk;
    uint32_t to_producer; /* 1: READ, data go to the producer */
    uint32_t done;        /* chunks moved, by whomever */
    uint32_t helper_error;
    uint64_t tail; /* generation << 2 | state of the packet behind the transfer */
    uint64_t key;  /* of the consumer's region: what it granted */
};

/* A small packet that is fenced behind a transfer and nothing else: a copy of it, which the
 * consumer delivers if it moves the last chunk.  The word in the job decides who does: the
 * producer takes the packet BACK, or the consumer says CLAIMED, copies it and says TAKEN. */
enum { SHM_TAIL_BACK = 0, SHM_TAIL_ARMED = 1, SHM_TAIL_CLAIMED = 2, SHM_TAIL_TAKEN = 3 };

struct shm_tail {
    uint32_t length;
    uint32_t after; /* packets that the ring had seen when the transfer was published */
    unsigned char data[SHM_TAIL];
};

/* One transfer at a time through the cells, where single copy is forbidden. */
struct shm_stage {
    _Alignas(128) uint32_t serial; /* producer: a new transfer */
    uint32_t to_producer;
    uint64_t consumer_address;
    uint64_t key;
    uint64_t length;
    /* serial << 32 | cells filled or emptied by this side in that transfer */
    _Alignas(128) uint64_t producer_cells;
    _Alignas(128) uint64_t consumer_cells;
    uint32_t refused; /* consumer: serial of a transfer it refuses */
};

struct shm_segment {
    uint64_t magic; /* this line: written before the memory is handed over */
    uint32_t version;
    uint32_t bytes;
    uint32_t from_rank;
    uint32_t to_rank;
    uint32_t staged;                         /* 1: cells follow the bulk area */
    _Alignas(128) uint32_t producer_waiting; /* producer sets, consumer takes */
    _Alignas(128) uint32_t help;             /* producer: transfers published */
    uint32_t producer_bye;                   /* producer: nothing comes any more */
    _Alignas(128) uint64_t credit;           /* consumer: bulk << 32 | slots freed */
    _Alignas(128) uint32_t consumer_waiting; /* consumer sets, producer takes */
    uint32_t consumer_bye;                   /* consumer: it sends nothing any more */
    _Alignas(128) struct shm_stage stage;
    _Alignas(128) struct shm_job jobs[SHM_JOBS];
    _Alignas(128) struct shm_tail tails[SHM_JOBS];
    _Alignas(4096) struct shm_slot slots[SHM_SLOTS];
    _Alignas(4096) unsigned char bulk[]; /* shm_bulk_size(); then the cells, if staged */
};

_Static_assert(sizeof(struct shm_slot) == 128, "slot size is part of the layout");
_Static_assert(sizeof(struct shm_job) == 64, "job size is part of the layout");
_Static_assert(sizeof(struct shm_segment) == 4096 + SHM_SLOTS * 128,
               "segment size is part of the layout");
_Static_assert(2 * (sizeof(struct shm_segment) + SHM_BULK_MIN) <= 128 * 1024, "memory per peer");

#define SHM_GENERATIONS ((uint64_t)1 << 28)
#define SHM_CHUNKS_MAX (((uint64_t)1 << 18) - 1)

static inline uint64_t shm_claim(uint64_t generation, uint64_t chunks, uint64_t next) {
    return generation << 36 | chunks << 18 | next;
}

static inline uint64_t shm_tail_word(uint64_t claim, uint64_t state) {
    return claim >> 36 << 2 | state;
}

static inline uint32_t shm_claim_chunks(uint64_t claim) { return claim >> 18 & SHM_CHUNKS_MAX; }

static inline uint32_t shm_claim_next(uint64_t claim) { return claim & SHM_CHUNKS_MAX; }

/* Bulk area of every channel of a job of `ranks`, a power of two.  Copying in on one processor
 * while the other copies out is the fastest way for messages of middle size (16 and 32 KiB: 3 to 5
 * times a single copy by the kernel, which costs 2 us and more per call), so a small job gets room
 * for three of the largest; a large one must not pay for many peers. */
static inline uint32_t shm_bulk_size(uint32_t ranks) {
    return ranks <= 2 ? 8 * SHM_BULK_MIN : ranks <= 4 ? 4 * SHM_BULK_MIN : SHM_BULK_MIN;
}

/* The largest packet: at least two fit, so that one is filled while one is read. */
static inline uint32_t shm_packet_max(uint32_t bulk) {
    return bulk / 2 < SHM_PACKET_LIMIT ? bulk / 2 : SHM_PACKET_LIMIT;
}

static inline uint32_t shm_bytes(uint32_t bulk, int staged) {
    return sizeof(struct shm_segment) + bulk + (staged ? SHM_CELLS * SHM_CELL : 0);
}

static inline uint32_t shm_bulk_need(uint32_t length) { return (length + 63u) & ~63u; }

/* Where a bulk packet of `length` bytes starts when `position` bytes of an area of `bulk` were
 * used so far: it never wraps around, the rest before the end is skipped. */
static inline uint32_t shm_bulk_place(uint32_t bulk, uint32_t position, uint32_t length) {
    uint32_t offset = position & (bulk - 1);
    if (offset + shm_bulk_need(length) > bulk)
        position += bulk - offset;
    return position;
}

#endif
