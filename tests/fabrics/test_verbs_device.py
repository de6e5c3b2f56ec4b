"""What is read of real devices, and what is read where there are none."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pyrdv.fabrics import verbs
from pyrdv.fabrics.verbs import choice, codes, sysfs
from pyrdv.fabrics.verbs.gids import INFINIBAND, IWARP, ROCE_V1, ROCE_V2
from tests.house import reading
from tests.support.absent import absent

from .verbstools import raw


def test_interfaces_of_this_namespace():
    from pyrdv.fabrics.verbs import device

    here = device.interfaces()
    assert sorted((one.index, one.name) for one in here) == sorted(socket.if_nameindex())
    for one in here:
        told = Path("/sys/class/net", one.name, "address").read_text().strip()
        assert one.hardware.hex(":") == told
        for address in one.addresses:
            socket.inet_pton({4: socket.AF_INET, 6: socket.AF_INET6}[address.family], address.text)
            assert 0 < address.prefix <= {4: 32, 6: 128}[address.family]


def test_loopback_has_its_prefix():
    """In a namespace of its own: this machine's loopback may be set up in any way."""
    program = (
        "from pyrdv.fabrics.verbs import device\n"
        "(lo,) = device.interfaces()\n"
        "print(lo.name, lo.up, lo.hardware.hex(), *lo.addresses)\n"
    )
    command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c",
               "ip link set lo up && exec \"$@\"", "sh", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "unshare:" in done.stderr:
        absent(f"this machine permits no namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:4] == ["lo", "True", "000000000000", "127.0.0.1/8"]


def test_numbers_in_words():
    assert [codes.mtu(code) for code in range(7)] == [0, 256, 512, 1024, 2048, 4096, 0]
    assert codes.state(4) == choice.ACTIVE and codes.state(1) == "DOWN" and "9" in codes.state(9)
    assert codes.gbit(2, 32) == 100.0 and codes.gbit(1, 8) == 10.0 and codes.gbit(99, 1) == 0
    assert codes.link_layer(2) == "Ethernet" and codes.link_layer(0) == "InfiniBand"
    assert [codes.kind(code, "IB") for code in range(3)] == [INFINIBAND, ROCE_V1, ROCE_V2]
    assert codes.kind(0, "iWARP") == IWARP and codes.kind(7, "IB") == "GID type 7"


def fake_sysfs(root, name, *rows, link_layer="Ethernet"):
    """Files of a device's first port; a row is (address, type, interface), None if empty."""
    port = root / name / "ports" / "1"
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / folder).mkdir(parents=True)
    (port / "link_layer").write_text(link_layer + "\n")
    for index, (text, kind, netdev) in enumerate(rows):
        words = raw(text).hex() if text else "0" * 32
        grouped = ":".join(words[i:i + 4] for i in range(0, 32, 4))
        (port / "gids" / str(index)).write_text(grouped + "\n")
        if kind:
            (port / "gid_attrs" / "types" / str(index)).write_text(kind + "\n")
            (port / "gid_attrs" / "ndevs" / str(index)).write_text(netdev + "\n")


def test_gids_from_files(tmp_path):
    rows = [("fe80::1", "IB/RoCE v1", "eth0"), (None, None, ""), ("10.0.0.1", "RoCE v2", "eth0")]
    rows += [(None, None, "")] * 8 + [("fd00::1", "RoCE v2", "eth0.7")]
    fake_sysfs(tmp_path, "mlx5_0", *rows)
    found = sysfs.gid_rows("mlx5_0", 1, "IB", tmp_path)
    assert [(port, one.index, one.text, one.kind, one.netdev) for port, one in found] == [
        (1, 0, "fe80::1", ROCE_V1, "eth0"), (1, 2, "10.0.0.1", ROCE_V2, "eth0"),
        (1, 11, "fd00::1", ROCE_V2, "eth0.7")]
    assert sysfs.gid_rows("mlx5_0", 2, "IB", tmp_path) == found, "a second port without files"
    assert sysfs.gid_rows("none", 1, "IB", tmp_path) == []
    fake_sysfs(tmp_path, "siw0", ("fe80::1", "IB/RoCE v1", "eth0"))
    assert sysfs.gid_rows("siw0", 1, "iWARP", tmp_path)[0][1].kind == IWARP
    fake_sysfs(tmp_path, "ib0", ("fe80::1", "IB/RoCE v1", ""), link_layer="InfiniBand")
    assert sysfs.gid_rows("ib0", 1, "IB", tmp_path)[0][1].kind == INFINIBAND


# -------------------------------------------------------------- on a real device


@pytest.fixture
def found(rdma_device):
    """The device under test, as pyrdv reads it."""
    from pyrdv.fabrics.verbs import device

    (one,) = [one for one in device.devices() if one.name == rdma_device.name]
    return one


@pytest.mark.verbs
def test_device_is_read(rdma_device, found):
    assert found.problem == "" and found.transport == ("iWARP" if rdma_device.iwarp else "IB")
    port = found.ports[rdma_device.port - 1]
    assert (port.number, port.state) == (rdma_device.port, "ACTIVE")
    folder = Path("/sys/class/infiniband", rdma_device.name, "ports", str(rdma_device.port))
    assert port.link_layer == (folder / "link_layer").read_text().strip()
    assert port.mtu in (256, 512, 1024, 2048, 4096) and port.max_msg_sz >= 1 << 20
    assert set(found.limits) == set(codes.LIMITS)
    assert all(value > 0 for value in found.limits.values())


@pytest.mark.verbs
def test_gids_agree_with_the_kernels_files(rdma_device, found):
    rows = sysfs.gid_rows(rdma_device.name, len(found.ports), found.transport)
    assert rows
    told = [(port, one.index, one.raw, one.kind) for port, one in rows]
    assert [(port.number, one.index, one.raw, one.kind)
            for port in found.ports for one in port.gids] == told


@pytest.mark.verbs
def test_pyverbs_reads_the_same(found):
    """An independent reader, run by the system's interpreter, which Debian's pyverbs serves."""
    program = (
        "import json\nfrom dataclasses import asdict\n"
        "from pyrdv.fabrics.verbs import pyverbs_devices as p\n"
        "assert p.importable()\n"
        "print(json.dumps([asdict(one) for one in p.read()], default=bytes.hex))\n"
    )
    done = subprocess.run(["/usr/bin/python3", "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(reading.SRC)})
    assert done.returncode == 0, f"is python3-pyverbs installed?\n{done.stderr}"
    (other,) = [row for row in json.loads(done.stdout) if row["name"] == found.name]
    assert other["limits"] == found.limits and other["transport"] == found.transport
    assert other["vendor"] == found.vendor and other["firmware"] == found.firmware
    for port, row in zip(found.ports, other["ports"], strict=True):
        for name in ("number", "state", "link_layer", "mtu", "max_mtu", "max_msg_sz", "gbit"):
            assert row[name] == getattr(port, name)
        assert [(one["index"], one["raw"], one["kind"]) for one in row["gids"]] == [
            (one.index, one.raw.hex(), one.kind) for one in port.gids]


@pytest.mark.verbs
def test_choice_on_a_real_device(rdma_device):
    from pyrdv.fabrics.verbs import device

    chosen = device.choose(rdma_device.name, rdma_device.port)
    assert str(chosen) == f"{rdma_device.name}:{rdma_device.port}"
    first = chosen.candidates[0]
    assert first.kind == (IWARP if rdma_device.iwarp else ROCE_V2)
    here = {one.name: one for one in device.interfaces()}
    for one in chosen.candidates:
        assert one.address in [address.text for address in here[one.netdev].addresses]
        assert one.scope == (here[one.netdev].index if one.address.startswith("fe80") else 0)
    assert not first.address.startswith("fe80")
    assert verbs.unavailable(rdma_device.name) is None and device.manager_problem() is None
    again = device.choose(rdma_device.name, gid=first.gid_index)
    assert first in again.candidates
    with pytest.raises(ValueError, match=f"there are: .*{rdma_device.name}"):
        device.choose("nosuch0")
    with pytest.raises(ValueError, match="has no port 77"):
        device.choose(rdma_device.name, 77)
    with pytest.raises(ValueError, match="GID 999 .* is empty"):
        device.choose(rdma_device.name, gid=999)


@pytest.mark.verbs
def test_device_of_another_namespace_is_refused(rdma_device):
    """In shared mode a device is seen in every namespace, but its address is in one."""
    program = (
        "from pyrdv.fabrics.verbs import device\n"
        f"names = [one.name for one in device.devices()]\nassert {rdma_device.name!r} in names\n"
        f"try:\n    device.choose({rdma_device.name!r})\n"
        "except OSError as error:\n    print(error)\n"
    )
    done = subprocess.run(["unshare", "--net", sys.executable, "-c", program],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "in this network namespace" in done.stdout and "ip addr add" in done.stdout


@pytest.mark.verbs
def test_a_queue_pair_tells_the_order_of_data(rdma_device, found):
    from pyrdv.fabrics.verbs import device

    before = sorted(os.listdir("/proc/self/fd"))
    # No soft device promises it; of others the answer itself is the test.
    promised = device.try_queue_pair(rdma_device.name)
    assert promised is False if found.soft else promised in (True, False, None)
    with pytest.raises(ValueError, match="nosuch0"):
        device.try_queue_pair("nosuch0")
    device.devices()
    device.manager_problem()
    assert sorted(os.listdir("/proc/self/fd")) == before, "something was left open"
