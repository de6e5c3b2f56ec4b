"""Whole jobs over RDMA devices: every kind of traffic, on the path that is meant.

Field cases M05, P03, P04, P05, P10, N02, N11, R05 to R07, L06, L09, R11 on this fabric.
"""

import sys
from pathlib import Path

import pytest

from tests.support.jobs import case_names
from tests.verbs.nodes import two_nodes

pytestmark = pytest.mark.verbs

HERE = Path(__file__).parent
TRAFFIC = HERE / "programs" / "traffic.py"
MIXED = HERE / "programs" / "mixed.py"
RANKS = HERE.parent / "ranks" / "programs"
SILENT = RANKS / "silent.py"
REQUESTS = HERE.parent / "requests" / "programs"


@pytest.mark.parametrize("ring", ["on", "off"])
@pytest.mark.parametrize("case", case_names(TRAFFIC))
def test_two_ranks(programs, case, ring):
    programs.check(TRAFFIC, case, 2, env={"PYRDV_RDMA_RING": ring})


@pytest.mark.parametrize(("name", "case"), [
    (name, case) for name in ("freed", "kinds", "snapshots")
    for case in case_names(REQUESTS / f"{name}.py")])
def test_requests(programs, name, case):
    """Receives of one kind that meet the other, what sends of objects take along, freed ones."""
    programs.check(REQUESTS / f"{name}.py", case, 2)


@pytest.mark.parametrize("case", case_names(RANKS / "traffic.py"))
def test_four_ranks(programs, case):
    programs.check(RANKS / "traffic.py", case, 4, env={"PYRDV_CONNECT": "start"})


@pytest.mark.parametrize("case", case_names(SILENT))
def test_a_rank_that_has_only_received(jobs, case):
    """It ends in good order, although it never had a reason to connect to anybody."""
    outcome = jobs.run([sys.executable, str(SILENT), case], 3)
    assert outcome.ok().out == "", outcome


@pytest.mark.parametrize("case", case_names(MIXED))
def test_shared_memory_and_verbs(programs, case):
    """Two ranks per node: the near ones meet in shared memory, the far ones over the wire."""
    if not two_nodes():
        # On a developer's own device; in the lab a skip fails its suite (tests/lab/test_suites.py).
        pytest.skip("needs two nodes (make lab): on one, all ranks share memory")
    programs.check(MIXED, case, 4, env={"PYRDV_FABRIC": "auto"})


HELLO = """
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
print(MPI.fabrics()[1 - comm.rank], comm.sendrecv(comm.rank, 1 - comm.rank, 0, None, 1 - comm.rank))
"""


def test_device_is_found(jobs):
    """Nothing is said of the device: each rank takes that of its own node."""
    outcome = jobs.run(HELLO, 2, chosen=False)
    assert outcome.ok().lines == [
        f"verbs {jobs.name(0)}:1 1", f"verbs {jobs.name(1)}:1 0"], outcome


def test_device_that_is_not_there(jobs):
    """The error lists what is there, on all ranks, and nobody waits."""
    outcome = jobs.run(HELLO, 2, first="export PYRDV_RDMA_DEVICE=mlx5_7")
    assert outcome.status == 1 and "mlx5_7" in outcome.err and jobs.name(0) in outcome.err, outcome


FIRST = """
import sys, time
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
fabric = MPI._world.engine.fabrics[-1]
kept, rooms = [], []
for other in range(comm.size):
    if other != comm.rank:
        kept.append(comm.Isend(np.full(100, comm.rank), other, 1))
        rooms.append(np.empty(100, int))
        kept.append(comm.Irecv(rooms[-1], other, 1))
MPI.Request.Waitall(kept)
assert sorted(room[0] for room in rooms) == [r for r in range(comm.size) if r != comm.rank]
print(fabric.counters["links"])
"""


@pytest.mark.parametrize("connect", ["demand", "start"])
def test_all_meet_at_once(jobs, connect):
    """P10, N11: 8 ranks send to all others as first contact: one connection per pair."""
    outcome = jobs.run(FIRST, 8, env={"PYRDV_CONNECT": connect})
    assert outcome.ok().lines == ["7"] * 8, outcome


def test_two_meet_at_once(jobs):
    """P10: 60 fresh pairs of ranks in two processes, both of which send first."""
    outcome = jobs.run([HERE / "programs" / "meeting.py", "60"], 2)
    assert outcome.ok().lines == ["60 pairs met"] * 2


SIZES = """
import sys
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
if sys.argv[1] == str(comm.rank):
    comm.send("first", other)
elif sys.argv[1] == str(other):
    assert comm.recv(None, other) == "first"
for size in (1, 900, 1100, 4000, 5000, 16384, 20_000, 125_000):
    data = np.arange(size) + comm.rank
    room = np.empty_like(data)
    comm.Sendrecv(data, other, 0, room, other, 0)
    assert (room == np.arange(size) + other).all()
print("arrived")
"""


@pytest.mark.parametrize("first", ["0", "1", "both"])
@pytest.mark.parametrize("small", [(0, 1), (0,), (1,)], ids=["both", "near", "far"])
def test_smaller_mtu(jobs, cable, small, first):
    """N02: these nodes have a path MTU of 1024, not 4096: all sizes arrive, whoever connects."""
    cable.set_mtu(1500, small)
    (jobs.folder / "sizes.py").write_text(SIZES)
    outcome = jobs.run([jobs.folder / "sizes.py", first], 2)
    assert outcome.ok().out == "arrived\n" * 2


@pytest.mark.parametrize("order", ["comm request world", "world request comm",
                                   "request world comm"])
def test_objects_go_in_any_order(jobs, order):
    """R11: dropped in every order, with live globals; nothing is left in the kernel."""
    outcome = jobs.run(f"""
import gc
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
things = {{"comm": comm.Dup(), "request": comm.Irecv(np.empty(5), other, 7), "world": MPI._world}}
more = things["comm"].isend(np.ones(100_000), other)
assert things["comm"].recv(None, other).sum() == 100_000
comm.Barrier()
for name in {order.split()!r}:
    if name == "world":
        MPI.Finalize()
    del things[name]
    gc.collect()
print("ended")
""", 2, env={"PYTHONWARNINGS": "error"})
    assert outcome.ok().out == "ended\n" * 2


@pytest.mark.parametrize("way", ["return", "sys.exit(3)", "raise KeyError('x')", "os._exit(4)"])
def test_end_in_the_middle_of_traffic(jobs, way):
    """L08: ranks end while 500 messages are in flight: right status, nothing is left."""
    status = {"return": 0, "sys.exit(3)": 3, "raise KeyError('x')": 1, "os._exit(4)": 4}[way]
    outcome = jobs.run(f"""
import os, sys
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
def main():
    comm.Barrier()
    kept = [comm.Isend(np.full(n % 9 * 100, 1.0), other) for n in range(450)]
    kept += [comm.isend({{"n": n, "big": np.ones(20_000)}}, other) for n in range(50)]
    kept += [comm.irecv(None, other) for n in range(250)]
    comm.Barrier()      # who has ended gets no more messages
    {way}
main()
""", 2, limit=60)
    assert outcome.status == status, f"{outcome}"
    assert "Fatal" not in outcome.err and "signal" not in outcome.err, outcome


def test_programs_started_by_a_rank(jobs):
    """L09: subprocess.run inherits no descriptor of the device."""
    jobs.run("""
import subprocess
from pyrdv import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
for _ in range(5):
    done = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True,
                          close_fds=False)
    # A heading; 0, 1, 2 and the one that ls reads the folder with.
    assert len(done.stdout.splitlines()) == 5 and not done.stderr, done
comm.Barrier()
""", 2, env={"PYTHONWARNINGS": "error"}).ok()
