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
