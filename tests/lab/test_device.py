"""The device under test is what its name says, and a queue pair can be made on it."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.verbs


def test_port_is_active(rdma_device):
    port = Path("/sys/class/infiniband", rdma_device.name, "ports", str(rdma_device.port))
    assert port.joinpath("state").read_text().split() == ["4:", "ACTIVE"]


def test_the_library_knows_the_device(rdma_device):
    told = subprocess.run(["ibv_devinfo", "-d", rdma_device.name, "-i", str(rdma_device.port)],
                          capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"hca_id:\t{rdma_device.name}" in told
    assert ("iWARP" in told) == rdma_device.iwarp
