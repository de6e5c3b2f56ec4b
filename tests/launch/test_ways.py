"""Which fabric serves which peer: `pyrdv.ways.Ways`, with fake hosts and a fake device."""

import ast
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
AGENT = ("--agent", "env THERE={host}")

FAKED = """
from tests.launch import fakes
fakes.install()
from pyrdv import MPI
comm = MPI.COMM_WORLD
"""

PLAIN = """
from pyrdv import MPI
comm = MPI.COMM_WORLD
"""

EXCHANGE = """
import numpy as np
for step in range(1, comm.size):
    right, left = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
    for size in (0, 8, 5000, 300_000):
        room = np.empty(size, np.uint8)
        comm.Sendrecv(np.full(size, comm.rank, np.uint8), right, 0, room, left)
        assert (room == left).all()
assert comm.allreduce(comm.rank) == sum(range(comm.size))
"""

SHOW = """
names = [type(fabric).__name__ for fabric in MPI._world.engine.fabrics]
print((comm.rank, (MPI.fabrics(), names)))
"""


@pytest.fixture
def run(jobs):
    def run(code, n, *options, **env):
        return jobs.run(code, n, *options, env={"PYTHONPATH": ROOT, **env})

    return run


def seen(out):
    """What each rank printed, by rank."""
    return dict(sorted(ast.literal_eval(line) for line in out.splitlines()))


def ways(*rows):
    """What `SHOW` prints for rows such as ``-sv``: self, shm, verbs."""
    names = {"-": "self", "s": "shm", "v": "verbs fake0:1"}
    classes = {"s": "ShmFabric", "v": "FakeFabric"}
    return {rank: ({peer: names[letter] for peer, letter in enumerate(row)},
                   [classes[letter] for letter in "sv" if letter in row])
            for rank, row in enumerate(rows)}


# --- who is reached how ---------------------------------------------------------------------------


def test_one_host_uses_shm_and_loads_nothing_of_verbs(run):
    status, out, err = run(PLAIN + EXCHANGE + SHOW + """
assert not [name for name in sys.modules if name.startswith("pyrdv.fabrics.verbs")]
""", 3)
    assert (status, err) == (0, "")
    assert seen(out) == ways("-ss", "s-s", "ss-")


def test_one_host_makes_one_exchange(run):
    """The start of a job of one host costs one round with the launcher."""
    status, out, err = run("""
from pyrdv.launch import bootstrap
asked = []
real = bootstrap.Client._round
bootstrap.Client._round = lambda self, kind, *rest: asked.append(kind) or real(self, kind, *rest)
from pyrdv import MPI
print((MPI.COMM_WORLD.rank, len(asked)))
""", 2)
    assert (status, err) == (0, "") and seen(out) == {0: 1, 1: 1}


def test_alone(run):
    status, out, err = run(PLAIN + SHOW, 1, PYRDV_FABRIC="verbs", PYRDV_CONNECT="start")
    assert (status, err) == (0, "") and seen(out) == ways("-")


@pytest.mark.parametrize(
    ("hosts", "rows"),
    [("a,b", ["-svv", "s-vv", "vv-s", "vvs-"]),
     ("a:3,b:1", ["-ssv", "s-sv", "ss-v", "vvv-"]),
     ("a,b,c,d", ["-vvv", "v-vv", "vv-v", "vvv-"])])
def test_several_hosts(run, hosts, rows):
    status, out, err = run(FAKED + EXCHANGE + SHOW + """
fake, = fakes.made
assert fake.at_start == 0 and fake.counters["packets"]
assert fake.peers == [way.startswith("verbs") for way in MPI.fabrics().values()]
""", 4, "--hosts", hosts, *AGENT)
    assert (status, err) == (0, "") and seen(out) == ways(*rows)


def test_verbs_can_be_forced_within_a_host(run):
    status, out, err = run(FAKED + EXCHANGE + SHOW, 3, "--fabric", "verbs")
    assert (status, err) == (0, "") and seen(out) == ways("-vv", "v-v", "vv-")


def test_all_connections_at_the_start(run):
    status, out, err = run(FAKED + """
fake, = fakes.made
assert fake.at_start == 1
assert sorted(MPI._world.engine.peer_states()) == ["self", "up", "up", "up"]
""" + EXCHANGE + SHOW, 4, "--hosts", "a,b", *AGENT, PYRDV_CONNECT="start")
    assert (status, err) == (0, "") and seen(out) == ways("-svv", "s-vv", "vv-s", "vvs-")


def test_the_knobs_reach_the_fabric(run):
    status, out, err = run(FAKED + "print((comm.rank, fakes.made[0].options))", 2, "--hosts",
                           "a,b", *AGENT, PYRDV_RDMA_DEVICE="mlx5_0:2", PYRDV_RDMA_GID="3",
                           PYRDV_RDMA_RING="off", PYRDV_PEER_TIMEOUT="1.5")
    assert (status, err) == (0, "")
    assert seen(out)[1] == {"device": "mlx5_0", "port": 2, "gid": 3, "ring": "off",
                            "peer_timeout": 1.5}
    status, out, err = run(FAKED + "print((comm.rank, fakes.made[0].options))", 2, "--hosts",
                           "a,b", *AGENT, PYRDV_RDMA_DEVICE="rxe0")
    assert (status, err) == (0, "")
    assert seen(out)[0] == {"device": "rxe0", "port": 0, "gid": -1, "ring": "auto",
                            "peer_timeout": 5.0}


def test_a_dead_peer_of_another_host(run):
    status, out, err = run(FAKED + EXCHANGE + """
if comm.rank == 3: os._exit(0)
try: comm.recv(None, 3)
except MPI.Exception as error: print((comm.rank, error.peer))
""", 4, "--hosts", "a,b", *AGENT)
    assert (status, err) == (0, "") and seen(out) == {0: 3, 1: 3, 2: 3}


# --- what cannot be -------------------------------------------------------------------------------


def errors(err):
    """The last line of each traceback."""
    return {line.partition(": ")[2] for line in err.splitlines()
            if line.startswith("pyrdv.errors.")}


def test_shm_refuses_peers_elsewhere(run):
    status, out, err = run(FAKED, 4, "--hosts", "a,b", *AGENT, "--fabric", "shm")
    assert status == 1 and out == ""
    text, = errors(err)
    for part in ("PYRDV_FABRIC=shm", "ranks 0-1 on a, ranks 2-3 on b", "unset it"):
        assert part in text


def test_no_device_where_one_is_needed(run):
    """Every rank raises, so none waits for another that has given up; one says why (W3)."""
    status, out, err = run(FAKED, 4, "--hosts", "a,b", *AGENT, "--grace", "20",
                           FAKE_TROUBLE="b=no RDMA device has a port that is up")
    assert status == 1 and out == ""
    short, full = sorted(errors(err), key=len)
    assert err.count(short) == 3 and err.count(full) == 1
    for text in (short, full):
        assert "ranks 0-1 on a, ranks 2-3 on b), but ranks 2-3 cannot use one" in text
    assert short.endswith("the error of rank 2 says why")
    for part in ("ranks 2-3: fabric: no RDMA device has a port", "pyrdv doctor", "on one host"):
        assert part in full


def test_no_device_where_it_is_demanded(run):
    status, out, err = run("""
from tests.launch import fakes
fakes.install(built=False)
from pyrdv import MPI
""", 2, "--fabric", "verbs", "--grace", "20")
    assert status == 1 and out == ""
    short, text = sorted(errors(err), key=len)
    assert "rank 0 says why" in short
    for part in ("PYRDV_FABRIC=verbs", "ranks 0-1: this installation of pyrdv was built without",
                 "pyrdv doctor", "unset PYRDV_FABRIC"):
        assert part in text


@pytest.mark.parametrize("device", ["rxe0:", "rxe0:x", "rxe0:1:2"])
def test_a_device_that_is_none(run, device):
    status, _, err = run(FAKED, 2, "--fabric", "verbs", PYRDV_RDMA_DEVICE=device)
    assert status == 1
    text = max(errors(err), key=len)
    assert f"PYRDV_RDMA_DEVICE={device!r}" in text and "NAME:PORT" in text


@pytest.mark.parametrize(
    ("variable", "one", "other"),
    [("PYRDV_FABRIC", "auto", "verbs"), ("PYRDV_CONNECT", "demand", "start"),
     ("PYRDV_COLLECTIVES", "bcast=chain", "bcast=chain,gather=linear"),
     ("PYRDV_UNEXPECTED_MAX", "1048576", "2097152")])
def test_settings_that_must_be_one(run, variable, one, other):
    status, _, err = run(f"""
os.environ["{variable}"] = "{one}" if launch.rank == 0 else "{other}"
from tests.launch import fakes
fakes.install()
from pyrdv import MPI
""", 2, "--grace", "20")
    assert status == 1
    assert errors(err) == {
        f"{variable} is {own} on rank {rank} and {theirs} on rank {1 - rank}; set it to one value "
        "for the whole job" for rank, own, theirs in ((0, one, other), (1, other, one))}
