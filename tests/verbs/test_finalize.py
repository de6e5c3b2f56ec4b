"""The end of a rank that owes something to a peer which cannot be reached any more (N05, N10).

The rule of silence bounds it: a peer that does not answer for the peer timeout is lost.
"""

import os
import signal
import time

import pytest

from tests.support.jobs import wait_until

pytestmark = pytest.mark.verbs

HEAD = """
import os, time
import numpy as np
from pyrdv import MPI
from pyrdv.errors import PeerLostError
comm = MPI.COMM_WORLD

def wait_flag(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""
# More than the receives that a connection has, so some of the answers are owed.
COUNT = 48

OWED = {
    "answers": f"""
if comm.rank == 1:
    requests = [comm.Isend(np.ones(50_000), 0, tag) for tag in range({COUNT})]
    comm.recv(source=0)
    os.mkdir("stop")
    wait_flag("over")
else:
    comm.Probe(1, {COUNT - 1})
    comm.send("stop", 1)
    wait_flag("stopped")
    requests = [comm.Irecv(np.empty(50_000), 1, tag) for tag in range({COUNT})]
""",
    "a large message": """
if comm.rank == 1:
    comm.recv(source=0)
    os.mkdir("stop")
    wait_flag("over")
else:
    comm.send("stop", 1)
    wait_flag("stopped")
    request = comm.Isend(np.ones(500_000), 1)
""",
    "small messages": """
if comm.rank == 1:
    comm.recv(source=0)
    os.mkdir("stop")
    wait_flag("over")
else:
    comm.send("stop", 1)
    wait_flag("stopped")
    requests = [comm.Isend(np.ones(500), 1) for _ in range(100)]
""",
}


@pytest.mark.parametrize("what", OWED)
def test_owed_to_an_unreachable_peer(jobs, cable, what):
    """Finalize ends once the peer is judged lost."""
    process = jobs.start(HEAD + OWED[what] + """
if comm.rank == 0:
    os.mkdir("finalizing")
    MPI.Finalize()
    os.mkdir("ended")
else:
    os._exit(0)
""", 2, "--grace", "60", env={"PYRDV_PEER_TIMEOUT": "1"})
    jobs.wait_file("stop", 30)
    stopped = jobs.ranks()[1]
    os.kill(stopped, signal.SIGSTOP)
    (jobs.folder / "stopped").mkdir()
    jobs.wait_file("finalizing", 30)
    ended = jobs.folder / "ended"
    # It waits for a peer whose machine answers; that is no silence.
    time.sleep(2)
    waited = not ended.exists()
    cable.lose(100)
    gone = wait_until(ended.exists, 30)
    stacks = jobs.stacks()
    cable.plug()
    (jobs.folder / "over").mkdir()
    os.kill(stopped, signal.SIGCONT)
    assert gone, f"rank 0 still waits: {stacks}"
    assert waited, "nothing was owed"
    outcome = jobs.finish(process, 30)
    assert outcome.status == 0, outcome
    cable.mend()
    jobs.check_clean()
