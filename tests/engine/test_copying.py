"""The copy kernels: right bytes, nothing beside them, the CRC of what was copied (csrc/copy.h)."""

import random

import numpy as np
import pytest

from pyrdv.engine import copying

GUARD = 64
# Around every boundary of the kernels: words, vectors, cache lines, short and long CRC rounds.
SIZES = [*range(0, 200), 255, 256, 257, 335, 336, 337, 1007, 1008, 1009, 1023, 1024, 1025, 2047,
         2048, 2049, 3071, 3072, 3073, 4087, 4088, 4089, 4095, 4096, 4097, 6143, 6144, 6145, 10_001]
ALIGNMENTS = [(0, 0), (1, 0), (0, 1), (7, 3), (8, 0), (8, 8), (16, 8), (24, 63), (31, 32), (63, 1)]


def reference(data, crc=0):
    """CRC32C bit by bit."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.fixture(scope="module")
def data():
    noise = np.frombuffer(random.Random(5).randbytes(20_000), np.uint8)
    assert reference(b"123456789") == 0xE3069283
    return noise


@pytest.fixture(scope="module")
def crcs(data):
    """CRC32C of the first n bytes of `data`, for each n of SIZES, per offset in use."""
    found = {}
    for offset in {origin for _, origin in ALIGNMENTS}:
        crc, at = 0, 0
        for size in sorted(SIZES):
            crc = reference(data[offset + at:offset + size].tobytes(), crc)
            at = size
            found[offset, size] = crc
    return found


def aligned(size):
    """A buffer of `size` bytes that begins at a multiple of 64."""
    room = np.full(size + 64, 0x42, np.uint8)
    return room[-room.ctypes.data % 64:][:size]


@pytest.mark.parametrize("streaming", [False, True], ids=["cached", "streaming"])
@pytest.mark.parametrize("kernel", copying.usable())
def test_every_size_at_every_alignment(kernel, streaming, data, crcs):
    for to, origin in ALIGNMENTS:
        for size in SIZES:
            for checked in (False, True):
                room = aligned(GUARD + to + size + GUARD)
                room[:] = 0x42
                into = room[GUARD + to:GUARD + to + size]
                source = data[origin:origin + size]
                where = f"{size} bytes from {origin} to {to}, checked: {checked}"
                if checked:
                    crc = copying.copy_crc(kernel, into, source, 0, streaming)
                    assert crc == crcs[origin, size], where
                else:
                    copying.copy(kernel, into, source, streaming)
                assert np.array_equal(into, source), where
                assert (room[:GUARD + to] == 0x42).all(), where
                assert (room[GUARD + to + size:] == 0x42).all(), where


@pytest.mark.parametrize("kernel", copying.usable())
def test_a_crc_is_carried_on(kernel, data):
    """The CRC of two pieces, one after the other, is that of both together; any bit counts."""
    whole = reference(data[:9000].tobytes())
    for cut in (0, 1, 8, 336, 3071, 4088, 8999, 9000):
        room = np.empty(9000, np.uint8)
        crc = copying.copy_crc(kernel, room[:cut], data[:cut])
        assert copying.copy_crc(kernel, room[cut:], data[cut:9000], crc) == whole
    for bit in (0, 8 * 1023, 8 * 1024, 8 * 3072 + 5, 8 * 8999 + 7):
        other = data[:9000].copy()
        other[bit // 8] ^= 1 << bit % 8
        assert copying.copy_crc(kernel, room, other) != whole


def test_there_is_always_a_kernel():
    assert "plain" in copying.usable() and copying.best() in copying.usable()


@pytest.mark.parametrize("kernel, size", [("none", 4), ("plain", 5)])
def test_what_is_refused(kernel, size):
    with pytest.raises(ValueError, match="kernel|do not fill"):
        copying.copy(kernel, bytearray(size), b"1234")
