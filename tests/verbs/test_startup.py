"""Both ways of connecting all ranks at start that ``pyrdv bench startup`` compares."""

import json
import threading
import time

import pytest

pytestmark = pytest.mark.verbs

TOKEN = bytes(range(32))
LIMIT = 30.0


@pytest.fixture
def fabrics(rdma_device):
    """Makes the fabrics of a job of n ranks in this process, and closes them."""
    from pyrdv.fabrics.verbs.fabric import VerbsFabric

    made = []

    def make(n):
        made.extend(VerbsFabric(rank, n, TOKEN, device=rdma_device.name, port=rdma_device.port)
                    for rank in range(n))
        for fabric in made:
            fabric.set_peers([one.address for one in made])
        return made

    yield make
    for fabric in made:
        fabric.close()


def together(actions):
    """Run functions in a thread each; what each raised, or None."""
    ends = [None] * len(actions)

    def call(at, action):
        try:
            action()
        except Exception as error:
            ends[at] = error

    threads = [threading.Thread(target=call, args=item) for item in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT + 10)
        assert not thread.is_alive(), "a start hangs"
    return ends


@pytest.mark.parametrize("at_once", [False, True])
def test_threaded_start(fabrics, at_once):
    """One connection per pair, up on both sides when it returns."""
    from pyrdv.instruments.verbs.threaded import connect_all_threaded

    made = fabrics(4)
    assert together([lambda one=one: connect_all_threaded(one, LIMIT, at_once)
                     for one in made]) == [None] * 4
    assert [one.counters["links"] for one in made] == [3] * 4
    assert [one.joining for one in made] == [0] * 4
    connect_all_threaded(made[0], LIMIT)  # nothing is left to do


def test_threaded_start_that_nobody_answers(fabrics):
    from pyrdv.instruments.verbs.threaded import connect_all_threaded

    made = fabrics(3)
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match=r"rank 1 has no connection to ranks \[0, 2\] after 0.3"):
        connect_all_threaded(made[1], 0.3)
    assert time.monotonic() - begin < LIMIT


def test_threaded_start_with_a_rank_that_is_gone(fabrics):
    """It ends before its limit, and names the rank."""
    from pyrdv.instruments.verbs.threaded import connect_all_threaded

    made = fabrics(2)
    made[0].vanish()
    with pytest.raises(OSError, match="rank 0 ") as error:
        connect_all_threaded(made[1], LIMIT)
    assert not isinstance(error.value, TimeoutError)


START = """
import sys, time
from pyrdv import MPI
from pyrdv.fabrics.verbs.fabric import VerbsFabric
from pyrdv.instruments.fabric import Driver
from pyrdv.instruments.verbs.threaded import connect_all_threaded
way, lacking, gone, limit = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "gone", int(sys.argv[4])
comm = MPI.COMM_WORLD
own = next(one for one in comm.engine.fabrics if isinstance(one, VerbsFabric))
device, port = own.device.split(":")
# A request that a closed listener of siw has swallowed is waited for 12 peer timeouts.
fabric = VerbsFabric(comm.rank, comm.size, bytes(32), device=device, port=int(port),
                     peer_timeout=1.0)
fabric.set_peers(comm.allgather(fabric.address))
comm.Barrier()
name = f"no-ibv_create_qp-{comm.rank}"
if comm.rank == lacking:
    os.mkdir(name)
begin = time.monotonic()
try:
    if way == "steps":
        fabric.connect_all(limit)
    else:
        connect_all_threaded(fabric, limit, way == "all")
    text = "up"
except OSError as error:
    text = f"{type(error).__name__}: {error}"
if comm.rank == lacking:
    assert time.monotonic() - begin < limit
    # It goes on to refuse: siw loses a refusal if the connection is closed before it was read.
    driver = Driver(fabric)
    while not gone and time.monotonic() - begin < limit:
        driver.maintain()
        time.sleep(0.01)
    os.rmdir(name)
    if gone:
        fabric.close()
for line in comm.gather(text, root=0) or ():
    print(line)
fabric.close()
"""


# In steps rank 0 asks rank 1, with a thread rank 1 asks rank 0; who is asked says what it lacks.
ASKED = {"steps": 1, "one": 0, "all": 0}


def outcome_of_start(poor, way, lacking, then, limit):
    """The errors of the two ranks: of the one that lacks something, and of the other."""
    texts = poor(START, 2, args=[way, str(lacking), then, str(limit)]).ok().out.splitlines()
    own, other = texts[lacking], texts[1 - lacking]
    assert own.startswith("OSError: rank ") and "no queue pair is left here" in own, texts
    what = "take the connection of" if lacking == ASKED[way] else "connect to"
    assert f"rank {lacking} cannot {what} rank {1 - lacking} " in own, texts
    return other


@pytest.mark.parametrize("way", ASKED)
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_start_for_which_a_rank_lacks_something(poor, way, lacking):
    """Both ways say the same: at once what is lacking, and to the other what that rank said."""
    other = outcome_of_start(poor, way, lacking, "there", 8)
    assert other.startswith(f"TimeoutError: rank {1 - lacking} has no connection to ranks "
                            f"[{lacking}] after 8 s: "), other
    said = f"rank {lacking} said that it lacks memory, queue pairs or completion queues"
    assert (said in other) == (lacking == ASKED[way]), other


@pytest.mark.parametrize("way", ASKED)
def test_a_start_after_which_the_poor_rank_ends(poor, way):
    """Its peer is not kept until the limit, and has what that rank said."""
    lacking = ASKED[way]
    other = outcome_of_start(poor, way, lacking, "gone", 50)
    assert other.startswith(f"OSError: rank {lacking} ") and " is lost: " in other, other
    assert "it said that it lacks memory, queue pairs or completion queues" in other, other


def test_threaded_start_wants_an_open_fabric_of_verbs(fabrics):
    from pyrdv.fabrics.contract import Fabric
    from pyrdv.instruments.verbs.threaded import connect_all_threaded

    with pytest.raises(TypeError, match="Fabric is no VerbsFabric"):
        connect_all_threaded(Fabric(), 1)
    (one,) = fabrics(1)
    one.close()
    with pytest.raises(ValueError, match="closed"):
        connect_all_threaded(one, 1)


@pytest.mark.parametrize("requests", ["one", "all"])
def test_bench(jobs, requests):
    """Every number of ranks is measured both ways; the files hold all of it; nothing is left."""
    outcome = jobs.run(["-m", "pyrdv.tools.bench", "startup", "--counts", "2,3", "--rounds", "2",
                        "--requests", requests, "--json", "out.json"], 4,
                       env={"PYRDV_FABRIC": "auto"}).ok()
    content = json.loads((jobs.folder / "out.json").read_text())
    assert content["benchmark"] == "startup" and content["settings"]["ranks"] == 4
    assert content["paper"]["steps_over_thread"] == 0.7
    assert [(row["ranks"], row["connections"]) for row in content["rows"]] == [(2, 1), (3, 3)]
    for row in content["rows"]:
        assert row["device"].startswith(jobs.kind) and row["ratio"] > 0
        for way in ("steps", "thread"):
            figures = row[way]
            assert len(figures["samples"]) == 2
            assert 0 < figures["min"] <= figures["median"] <= figures["max"]
    assert [line.split()[0] for line in outcome.out.splitlines()[-3:-1]] == ["2", "3"]
