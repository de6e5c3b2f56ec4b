"""Jobs over RDMA devices (tests/verbs/nodes.py)."""

import os
import tempfile

import pytest

from tests.support.jobs import Programs
from tests.verbs.nodes import Cable, NodeJobs, two_nodes
from tests.verbs.poor import runner


@pytest.fixture(scope="session", autouse=True)
def lossy_cable():
    if two_nodes():
        Cable.prepare()


@pytest.fixture
def jobs(rdma_device):
    # Not pytest's folder, which other users cannot enter: some ranks are not root.
    with tempfile.TemporaryDirectory(prefix="verbs-") as folder:
        os.chmod(folder, 0o777)
        made = NodeJobs(folder, rdma_device)
        yield made
        made.close()


@pytest.fixture
def poor(jobs):
    """Run a program on some ranks that are not root, whose device can have nothing left."""
    return runner(jobs)


@pytest.fixture(scope="module")
def programs(rdma_device, tmp_path_factory):
    return Programs(lambda: tmp_path_factory.mktemp("program"),
                    make_jobs=lambda folder: NodeJobs(folder, rdma_device))


@pytest.fixture
def cable(rdma_device):
    """The cable between two nodes, mended after the test."""
    if not two_nodes():
        # On a developer's own device; in the lab a skip fails its suite (tests/lab/test_suites.py).
        pytest.skip("needs two nodes joined by a cable (make lab): takes the cable away")
    made = Cable(rdma_device.name.rstrip("0123456789"))
    yield made
    made.mend()
