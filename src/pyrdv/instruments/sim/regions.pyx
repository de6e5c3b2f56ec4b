# cython: language_level=3
"""Registered memory of the simulated network's ranks.

A key is a slot and that slot's generation, so that a key outlives neither its
region nor the next one in the same slot; keys are the same in every run.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from pyrdv.fabrics.contract cimport (
    FABRIC_FAILED, FABRIC_INVALID, FABRIC_OK, WR_READ, fabric_t, region)
from pyrdv.instruments.sim.core cimport (
    FAULT_BUSY_REGION, FAULT_UNKNOWN_REGION, sim_between, sim_channel, sim_drop_local,
    sim_note_fault, sim_rank, sim_region, sim_transfer,
)

cdef extern from "errno.h" nogil:
    int ENOMEM


cdef sim_region *sim_own_region(sim_rank *rank, uint64_t key) noexcept nogil:
    cdef uint64_t slot = <uint64_t><uint32_t>key - 1
    if slot >= rank.region_count:
        return NULL
    if not rank.regions[slot].used or rank.regions[slot].generation != key >> 32:
        return NULL
    return &rank.regions[slot]


cdef int sim_register(fabric_t *self, void *address, uint64_t length, int access,
                      region *out) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef sim_region *grown
    cdef uint32_t slot, count
    if address == NULL or length == 0 or access <= 0 or access > 15:
        return FABRIC_INVALID
    if rank.lock_limit and rank.locked + length > rank.lock_limit:
        self.error = ENOMEM
        return FABRIC_FAILED
    if not rank.region_free:
        count = 2 * rank.region_count if rank.region_count else 64
        grown = <sim_region *>realloc(rank.regions, count * sizeof(sim_region))
        if grown == NULL:
            self.error = ENOMEM
            return FABRIC_FAILED
        rank.regions = grown
        for slot in range(rank.region_count, count):
            memset(&grown[slot], 0, sizeof(sim_region))
            grown[slot].next_free = slot + 2 if slot + 1 < count else 0
        rank.region_free = rank.region_count + 1
        rank.region_count = count
    slot = rank.region_free - 1
    rank.region_free = rank.regions[slot].next_free
    rank.regions[slot].used = 1
    rank.regions[slot].access = <uint8_t>access
    rank.regions[slot].generation += 1
    rank.regions[slot].transfers = 0
    rank.regions[slot].address = <char *>address
    rank.regions[slot].length = length
    rank.region_used += 1
    rank.locked += length
    out.key = (<uint64_t>rank.regions[slot].generation << 32) | (slot + 1)
    out.address = address
    out.length = length
    return FABRIC_OK


cdef bint sim_discard(fabric_t *self, uint32_t peer, uint64_t ident) noexcept nogil:
    """READ `ident` of `peer` goes on without its local memory."""
    cdef sim_rank *rank = <sim_rank *>self
    cdef sim_channel *ch = sim_between(rank.net, self.rank, peer)
    cdef sim_transfer *tr
    cdef uint32_t t
    for t in range(rank.net.transfers if ch.busy else 0):
        tr = &ch.transfers[t]
        if tr.used and tr.opcode == WR_READ and tr.id == ident and tr.local != NULL:
            tr.local = NULL
            sim_drop_local(rank.net, self.rank, tr)
    return True


cdef void sim_deregister(fabric_t *self, region *which) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef sim_region *entry = sim_own_region(rank, which.key)
    if entry == NULL:
        sim_note_fault(rank.net, FAULT_UNKNOWN_REGION, self.rank, self.rank)
        return
    if entry.transfers and not rank.dead:
        sim_note_fault(rank.net, FAULT_BUSY_REGION, self.rank, self.rank)
    entry.used = 0
    entry.next_free = rank.region_free
    rank.region_free = <uint32_t>which.key
    rank.region_used -= 1
    rank.locked -= entry.length
    which.key = 0
