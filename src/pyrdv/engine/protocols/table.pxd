# cython: language_level=3
"""The protocols, and whose a packet is.  Filled at import; then constant."""
from libc.stdint cimport uint32_t

from pyrdv.engine.protocols.contract cimport kind_t, protocol_t

cdef enum:
    ROWS_MOST = 12
    KIND_NUMBERS = 32           # packet kinds are smaller

cdef struct table_t:
    int count
    const protocol_t *rows[ROWS_MOST]           # all
    const protocol_t *by_code[ROWS_MOST]        # those that operations are of, by protocol_code
    int reserving_count
    const protocol_t *reserving[ROWS_MOST]      # those with `reserve`
    int owing_count
    const protocol_t *owing[ROWS_MOST]          # those with `owed`
    int acting_count
    const protocol_t *acting[ROWS_MOST]         # those with `act`
    int moving_count
    const protocol_t *moving[ROWS_MOST]         # those with `move`
    const protocol_t *owner                     # the one with `own_ended`
    uint32_t peer_bytes                         # what all of them keep per peer
    const kind_t *kinds[KIND_NUMBERS]           # NULL: there is no such kind

cdef const table_t *protocol_table() noexcept nogil
