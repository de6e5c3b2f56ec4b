# cython: language_level=3
"""Which channels a poll looks at.

A look at one channel costs a few nanoseconds, and a job may have a hundred ranks on one host, most
of them silent at any time.  So the list of channels has two parts: the lively ones in front, and
behind them those that are calm.

N1  A poll looks at each lively channel, and at CALM_LOOKS of the calm ones, in rotation.
N2  A calm channel in which something is found is lively before the same poll goes on.
N3  A lively channel becomes calm if it is empty, and nothing came through it between two reviews.
N4  Nothing lies in a calm channel for long: every WIDE_US, and after each `arm` that found
    something, a poll looks at all.  So a call that comes rarely misses nothing, and whoever waits
    sees a packet after some polls.
"""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.fabrics.shm.channel cimport SHM_SLOTS, glance32, inbound_t, observe32, shm_slot, shm_t


cdef extern from "ticks.h" nogil:
    uint64_t ticks_now()


cdef enum:
    CALM_LOOKS = 2              # calm channels that a poll looks at
    REVIEW_MASK = 4095          # polls between two reviews
    WIDE_US = 20                # between two polls that look at all


cdef void exchange(shm_t *self, uint32_t i, uint32_t k) noexcept nogil:
    cdef inbound_t *into = self.inbound[i]
    cdef uint32_t rank = self.inbound_rank[i]
    self.inbound[i], self.inbound_rank[i] = self.inbound[k], self.inbound_rank[k]
    self.inbound[k], self.inbound_rank[k] = into, rank


cdef void channel_list(shm_t *self, inbound_t *into, uint32_t rank) noexcept nogil:
    into.listed = 1
    self.inbound[self.inbound_count] = into
    self.inbound_rank[self.inbound_count] = rank
    exchange(self, self.inbound_count, self.lively_count)
    self.inbound_count += 1
    self.lively_count += 1


cdef void channel_unlist(shm_t *self, inbound_t *into) noexcept nogil:
    cdef uint32_t i = 0
    into.listed = 0
    while i < self.inbound_count and self.inbound[i] != into:
        i += 1
    if i == self.inbound_count:
        return
    if i < self.lively_count:
        self.lively_count -= 1
        exchange(self, i, self.lively_count)
        i = self.lively_count
    self.inbound_count -= 1
    exchange(self, i, self.inbound_count)
    if self.inbound_count <= FEW_CHANNELS:
        self.lively_count = self.inbound_count


cdef inline bint stirs(const inbound_t *into) noexcept nogil:
    """Whether there is a packet, or a transfer to help with."""
    cdef shm_slot *slot = &into.segment.slots[into.tail & (SHM_SLOTS - 1)]
    return (observe32(&slot.stamp) == into.tail + 1 or into.kept_head != into.kept_tail
            or into.serving or glance32(&into.segment.help) != into.help_seen)


cdef void rouse(shm_t *self, uint32_t i) noexcept nogil:
    """N2, if something is in the `i`-th channel, which is calm."""
    if stirs(self.inbound[i]):
        exchange(self, i, self.lively_count)
        self.lively_count += 1


cdef void review(shm_t *self) noexcept nogil:
    cdef uint32_t i = 0
    cdef inbound_t *into
    while i < self.lively_count:
        into = self.inbound[i]
        if into.tail == into.reviewed and not stirs(into):
            self.lively_count -= 1
            exchange(self, i, self.lively_count)
        else:
            into.reviewed = into.tail
            i += 1


cdef uint32_t channels_choose(shm_t *self) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t now
    if not self.rotation & REVIEW_MASK:
        review(self)
    if self.lively_count == self.inbound_count:
        return self.lively_count
    now = ticks_now()
    if self.wide or now - self.wide_at >= WIDE_US * self.ticks.per_us:
        self.wide = 0
        self.wide_at = now
        for i in range(self.lively_count, self.inbound_count):
            rouse(self, i)
        return self.lively_count
    for _look in range(CALM_LOOKS):
        self.calm_rotation += 1
        i = self.lively_count
        if i == self.inbound_count:
            break
        rouse(self, i + self.calm_rotation % (self.inbound_count - i))
    return self.lively_count
