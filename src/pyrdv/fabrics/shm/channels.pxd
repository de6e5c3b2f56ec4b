# cython: language_level=3
"""Which channels a poll looks at: those of peers that send (details in the .pyx)."""
from libc.stdint cimport uint32_t

from pyrdv.fabrics.shm.channel cimport inbound_t, shm_t

cdef enum:
    FEW_CHANNELS = 8            # up to so many, each poll looks at all

# Packets may come from `rank` through this channel from now on; and no more.
cdef void channel_list(shm_t *self, inbound_t *into, uint32_t rank) noexcept nogil
cdef void channel_unlist(shm_t *self, inbound_t *into) noexcept nogil
# step.  Of more than FEW_CHANNELS: look at some that are calm, and return how many are lively.
cdef uint32_t channels_choose(shm_t *self) noexcept nogil
