"""mpi4py's own tests once more, on two ranks that reach each other over RDMA verbs."""

import os
import tempfile

import pytest

from tests.mpi4py import source
from tests.mpi4py.test_suite import FILES, PROGRAM, WORDS, Verdict, verdicts
from tests.verbs.nodes import NodeJobs

pytestmark = pytest.mark.verbs


@pytest.fixture(scope="module")
def judged(rdma_device):
    """All files in one job; returns outcome and verdicts."""
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        os.chmod(folder, 0o777)
        jobs = NodeJobs(folder, rdma_device)
        try:
            outcome = jobs.run([PROGRAM], 2, args=[str(source.ensure() / "test"), *WORDS],
                               env=source.environment())
        finally:
            jobs.close()
    return outcome, verdicts(outcome.out)


@pytest.mark.parametrize("name", FILES)
def test_file(judged, name):
    outcome, found = judged
    mine = {rank: verdict for (file, rank), verdict in found.items() if file == name}
    assert mine == {rank: Verdict(FILES[name], 0, 0) for rank in range(2)}, f"{outcome}"


def test_over_the_wire(judged):
    """The job ended in order, and its ranks did not meet in shared memory."""
    outcome = judged[0].ok()
    ways = [line for line in outcome.lines if line.startswith("judge ")]
    assert len(ways) == 2 and all("verbs" in line and "shm" not in line for line in ways), outcome
