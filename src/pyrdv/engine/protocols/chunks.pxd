# cython: language_level=3
"""How the bytes of a message lie in the bounce buffers of the superpipeline.

Without blocks a chunk is just its bytes.  A block is as many bytes of the message as leave
room for a flag at its end: the chunk's number, and in the upper half the CRC32C of the bytes if
the flags are checked, else 0.  A last block that is short has no flag.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pyrdv.engine.protocols.lanes cimport lanes_of
from pyrdv.engine.state cimport ARRIVAL_FLAGS, ARRIVAL_NOTICE, engine_t
from pyrdv.fabrics.contract cimport CAP_ORDERED, CAP_SOFT, fabric_t


cdef enum:
    FLAG = 8                    # bytes of a flag
    LINE = 64                   # chunks without blocks are multiples of it
    FIRST = 12 << 10            # bytes of a first chunk: the paper's constant, from InfiniBand
    FIRST_SOFT = 256 << 10      # the same where a round trip of packets lasts ten times as long


cdef inline uint64_t least(uint64_t a, uint64_t b) noexcept nogil:
    return a if a < b else b

cdef inline uint64_t unit_of(uint32_t block) noexcept nogil:
    """Bytes of the message in one block; without blocks what chunks are rounded to."""
    return block - FLAG if block else LINE


cdef inline uint64_t payload_of(uint64_t bytes, uint32_t block) noexcept nogil:
    """How much of a message a buffer of `bytes` holds."""
    return bytes // block * (block - FLAG) if block else bytes


cdef inline uint64_t space_of(uint64_t length, uint32_t block) noexcept nogil:
    """Bytes that `length` bytes of a message take up in a buffer."""
    return length + length // (block - FLAG) * FLAG if block else length


cdef inline uint32_t layout(engine_t *e, const fabric_t *fabric, uint8_t *checked) noexcept nogil:
    """Bytes of a block in lanes of this engine, 0: none; and whether flags need a CRC."""
    cdef bint ordered = fabric.capabilities & CAP_ORDERED
    checked[0] = 0
    if e.arrival == ARRIVAL_NOTICE or e.arrival != ARRIVAL_FLAGS and not ordered \
            or fabric.transfer_max < lanes_of(e).block:
        return 0
    checked[0] = not ordered
    return lanes_of(e).block


cdef inline uint32_t first_of(uint32_t capabilities) noexcept nogil:
    """C0 where nothing was measured: about what is copied while RTS and GRANT are under way."""
    return FIRST_SOFT if capabilities & CAP_SOFT else FIRST


cdef inline uint64_t flag_word(uint32_t number, uint32_t crc) noexcept nogil:
    return <uint64_t> crc << 32 | number
