"""``pytest --fabric DEVICE[:PORT]``: the tests that need an RDMA device, on that device.

Tests of this kind carry the mark `verbs` and take the fixture `rdma_device`.  Without the option
they are left out here, because tests/lab/test_suites.py runs them inside the lab, once on each kind
of device; its table alone decides which of them run.  With the option only they run, on a device
of this machine.
"""

import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

SYSFS = Path("/sys/class/infiniband")


class Device(NamedTuple):
    """An RDMA device and its port (counted from 1)."""

    name: str
    port: int

    @property
    def iwarp(self):
        """Whether the device speaks iWARP; if not it is RoCE or InfiniBand."""
        return (SYSFS / self.name / "node_type").read_text().startswith("4")


def pytest_addoption(parser):
    parser.addoption(
        "--fabric", metavar="DEVICE[:PORT]", default=None,
        help="run the tests marked `verbs`, and only them, on this RDMA device of this machine",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "verbs: needs an RDMA device; runs in the lab, or with --fabric DEVICE[:PORT]"
    )
    asked = config.getoption("--fabric")
    config.rdma_device = None if asked is None else _device(asked)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As behind `&` in a script: the programs under test would inherit it and miss Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _device(asked):
    """The device that the option names, or a usage error that lists those that are there."""
    name, _, port = asked.partition(":")
    number = port or "1"
    if not number.isdigit() or not (SYSFS / name / "ports" / number).is_dir():
        there = sorted(os.listdir(SYSFS)) if SYSFS.is_dir() else []
        raise pytest.UsageError(
            f"--fabric {asked}: no such RDMA device and port; this machine has "
            f"{', '.join(there) or 'none (make lab has some)'}"
        )
    return Device(name, int(number))


def pytest_collection_modifyitems(config, items):
    wanted = config.rdma_device is not None
    kept, left = [], []
    for item in items:
        marked = item.get_closest_marker("verbs") is not None
        (kept if marked == wanted else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_report_header(config):
    if config.rdma_device is not None:
        return f"fabric: {config.rdma_device.name}, port {config.rdma_device.port}"
    return "fabric: tests marked `verbs` run inside the lab (tests/lab/test_suites.py)"


@pytest.fixture(scope="session")
def rdma_device(request):
    """The device under test, a `Device`."""
    return request.config.rdma_device
