"""What is measured when a job starts, by whom, and what comes of it (S1 to S4)."""

import json
import threading
import types

import pytest

from pyrdv.calibration import kept, measuring, starting
from pyrdv.engine import profiles
from pyrdv.engine.choice import costs, rule
from pyrdv.fabrics.shm.fabric import ShmFabric
from tests.fabrics import shmtools
from tests.support.figures import SOFT_ROCE

N = 1 << 20


def card(state, device):
    return bytes([state]) + bytes([device]) * kept.DIGEST_BYTES


NO, W, H = starting.NONE, starting.WANTS, starting.HAS


@pytest.mark.parametrize("cards, givers, pairs", [
    ([], {}, []),
    ([(H, 1), (H, 2)], {}, []),                                     # all is known
    ([(NO, 0), (NO, 0)], {}, []),
    ([(W, 1), (W, 2)], {1: 0, 2: 1}, [(0, 1)]),
    ([(W, 1), (W, 1), (W, 2), (W, 2)], {1: 0, 2: 2}, [(0, 2)]),     # each device once
    ([(W, 1), (W, 1)], {1: 0}, []),                                 # nothing to measure with
    ([(W, 1), (NO, 2)], {1: 0}, []),                                # nobody takes part
    ([(H, 1), (W, 2)], {2: 1}, [(1, 0)]),                           # one who knows helps
    ([(W, 1), (H, 1), (W, 2)], {1: 1, 2: 2}, [(2, 0)]),             # known to another rank on it
    ([(W, 1), (W, 2), (W, 3)], {1: 0, 2: 1, 3: 2}, [(0, 1)]),       # the odd one has to wait
    ([(W, 1), (W, 2), (W, 3), (W, 1)], {1: 0, 2: 1, 3: 2}, [(0, 1), (2, 3)]),
])
def test_plan(cards, givers, pairs):
    found = starting.plan([card(*one) for one in cards])
    assert found == ({bytes([device]) * kept.DIGEST_BYTES: rank
                      for device, rank in givers.items()}, pairs)


class Job:
    """Ranks as threads of this process, over shared memory that plays their devices."""

    def __init__(self, monkeypatch, tmp_path, devices, **settings):
        self.size = len(devices)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(kept, "identity",
                            lambda device: {"device": device, "guid": "1", "pyrdv": "0"})
        values = {"calibrate": True, "profile": "", "protocol": "auto"} | settings
        self.ranks = [starting.Calibration(rank, types.SimpleNamespace(**values), device)
                      for rank, device in enumerate(devices)]
        self.barrier = threading.Barrier(self.size, timeout=30)
        self.given = [b""] * self.size
        self.exchanges = self.made = 0
        self.failing = ()

    def exchange(self, rank, value):
        self.given[rank] = value
        if self.barrier.wait() == 0:
            self.exchanges += 1
        found = list(self.given)
        self.barrier.wait()
        return found

    def make(self, rank):
        if rank in self.failing:
            raise OSError("no such device")
        self.made += 1
        return self.fabrics[rank]

    def run(self):
        self.fabrics = [ShmFabric(rank, self.size, shmtools.TOKEN) for rank in range(self.size)]
        problems = []

        def one(rank):
            try:
                self.ranks[rank].run([each.card for each in self.ranks],
                                     lambda value: self.exchange(rank, value),
                                     lambda: self.make(rank))
            except BaseException as error:
                problems.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for fabric in self.fabrics:
            fabric.close()
        assert not problems
        return [each.figures for each in self.ranks]


@pytest.fixture
def job(monkeypatch, tmp_path):
    # Whoever else runs on this machine may bend the lines; that is not what is tested here.
    monkeypatch.setattr(measuring, "falling", lambda found: None)
    return lambda *devices, **settings: Job(monkeypatch, tmp_path, devices, **settings)


def test_first_job_measures_and_second_finds(job):
    first = job("a:1", "b:1", "a:1")
    found = first.run()
    assert all(found) and found[0] == found[2]
    assert first.ranks[0].samples > 50 and first.ranks[2].samples == 0
    assert "measured when this job started, and kept in" in first.ranks[0].source
    assert "of rank 0" in first.ranks[2].source
    for one, device in zip(found, "aba", strict=True):
        profiles.check(one)
        costs.check(one)
        assert one["ends"] == [f"verbs {device}:1"] or device == "a"
        assert [size for size, _ in one["copy"]] == starting.SIZES
        assert 0 < one["latency"] < 1 and 0 <= one["gap"] < 1
    # Both ends found the same of what lies between them.
    for name in ("latency", "gap", "net", "read"):
        assert found[0][name] == found[1][name]
    second = job("a:1", "b:1", "a:1")
    assert all(second.ranks[rank].figures["net"] == found[rank]["net"] for rank in range(3))
    second.run()
    assert second.exchanges == second.made == 0
    assert all("kept in" in each.source for each in second.ranks)


def test_what_is_chosen_then_is_the_cheapest(job):
    found = job("a:1", "b:1").run()[0]
    for size in (64 << 10, N):
        for uses in (0, 1, 4):
            taken, _, cost, instead = rule.explain(found, size, uses=uses)
            seconds = costs.predict(found, size, uses, uses)
            assert cost == seconds[taken] == min(seconds["get"], seconds["pipeline"]) <= instead


@pytest.mark.parametrize("settings", [
    {"profile": "mine.json"}, {"calibrate": False}, {"protocol": "get"}])
def test_when_nothing_is_measured(job, tmp_path, settings):
    one = job("a:1", "b:1", **settings)
    assert one.run() == [None, None]
    assert one.exchanges == one.made == 0 and not list(tmp_path.iterdir())


def test_a_profile_hides_what_was_kept(job):
    job("a:1", "b:1").run()
    assert job("a:1", "b:1", profile="mine.json").ranks[0].figures is None
    assert job("a:1", "b:1", protocol="get").ranks[0].figures is not None


def test_one_that_fails_costs_the_figures_alone(job, tmp_path):
    one = job("a:1", "b:1")
    one.failing = (1,)
    assert one.run() == [None, None] and not list(tmp_path.iterdir())


def test_a_silent_partner_is_given_up(job, monkeypatch):
    monkeypatch.setattr(starting, "TIMEOUT", 0.3)
    whole = starting.measure

    def silent(fabric, peer, active):
        return whole(fabric, peer, active) if active else (None, 0)

    monkeypatch.setattr(starting, "measure", silent)
    assert job("a:1", "b:1").run() == [None, None]


def test_a_busy_machine_is_tried_again_and_then_given_up(job, monkeypatch):
    asked = []

    def falling(found):
        asked.append(found)
        return ("a read", 1, 2.0, 2, 1.0)

    monkeypatch.setattr(measuring, "falling", falling)
    one = job("a:1", "b:1")
    assert one.run() == [None, None]
    assert len(asked) == 2 * starting.TRIES and one.ranks[0].samples > 100


def test_a_rank_that_knows_gives_to_one_that_does_not(job):
    """Two jobs at once: the file came between the looks of two ranks on one device."""
    one = job("a:1", "a:1")
    figures = {**SOFT_ROCE, "identity": {}}
    one.ranks[1].figures = figures
    one.ranks[1].card = bytes([starting.HAS]) + one.ranks[1].card[1:]
    assert one.run() == [figures, figures] and one.made == 0


@pytest.mark.parametrize("answer", [b"{", b"[]", b'{"ends": []}',
                                    json.dumps({**SOFT_ROCE, "net": []}).encode()])
def test_what_a_rank_gives_is_checked(job, answer):
    one = job("a:1", "a:1")
    one.ranks[0]._take(answer, 1)
    assert one.ranks[0].figures is None


def test_a_bad_file_is_one_warning(job, tmp_path):
    job("a:1", "b:1").run()
    for file in (tmp_path / "pyrdv").iterdir():
        file.write_text("{")
    again = job("a:1", "a:1", "b:1")
    with pytest.warns(UserWarning, match="kept are not used") as caught:
        assert all(again.run())
    assert len(caught) == 2                 # one per device, not one per rank
    assert all(one.figures for one in job("a:1", "b:1").ranks)


def test_quartiles_stand_noise_and_outliers():
    """A third of the samples is late, some by far: the figure is that of a quiet machine."""
    ruler = measuring.Ruler(measuring.alone, 0.1)
    pattern = (1.00, 1.03, 40.0, 1.01, 1.2, 1.04, 9.0, 1.02, 2.5)

    def loop(turns, samples):
        return [1e-3 * pattern[i % len(pattern)] for i in range(max(samples, 2))]

    assert ruler.figure(loop) == pytest.approx(1e-3, rel=0.05)
    assert ruler.samples == 41


def test_what_takes_too_long_is_refused():
    ruler = measuring.Ruler(measuring.alone, 0.1, most=0.5)
    with pytest.raises(OSError, match="more than 0.5"):
        ruler.figure(lambda turns, samples: [0.7] * 3)


def test_falling():
    assert measuring.falling(SOFT_ROCE) is None
    wrong = {**SOFT_ROCE, "read": [[1024, 5e-3], [2048, 1e-3]]}
    assert measuring.falling(wrong) == ("a read", 1024, 5e-3, 2048, 1e-3)
