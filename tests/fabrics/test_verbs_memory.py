"""Rights of registered memory (V4, R05) and the checksum of ring slots (V8).

siw does not enforce the rights, so the flags themselves are tested here.
"""

import pytest

from tests.support.absent import verbs_module

memory = verbs_module("memory")
sending = verbs_module("sending")

# contract.pxd and ibv_access_flags
LOCAL, REMOTE_READ, REMOTE_WRITE = 1, 2, 4
IBV_LOCAL_WRITE, IBV_REMOTE_WRITE, IBV_REMOTE_READ = 1, 2, 4


@pytest.mark.parametrize("iwarp", [False, True])
def test_a_source_asks_for_no_right_to_write(iwarp):
    """R05: a source may be read-only memory."""
    assert memory.device_rights(REMOTE_READ, iwarp) == IBV_REMOTE_READ


def test_the_sink_of_a_read_may_be_written_remotely_on_iwarp_only():
    """V4: an iWARP device answers a READ with what is checked like a remote write."""
    assert memory.device_rights(LOCAL, False) == IBV_LOCAL_WRITE
    assert memory.device_rights(LOCAL, True) == IBV_LOCAL_WRITE | IBV_REMOTE_WRITE


def test_a_remote_write_needs_the_local_right_too():
    assert memory.device_rights(REMOTE_WRITE, False) == IBV_LOCAL_WRITE | IBV_REMOTE_WRITE


def slow_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("portable", [False, True])
def test_checksum(portable):
    """The published check value, and every length around the word of the instruction."""
    assert sending.checksum(b"123456789", portable) == 0xE3069283
    for length in range(70):
        data = bytes((i * 37 + length) & 0xFF for i in range(length))
        assert sending.checksum(data, portable) == slow_crc32c(data)
