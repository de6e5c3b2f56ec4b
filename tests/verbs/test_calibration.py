"""A job that finds no figures of its devices measures them, and the next one chooses by them."""

import json
import re

import pytest

from tests.verbs.nodes import two_nodes

pytestmark = pytest.mark.verbs

SIZES = (4 << 10, 1 << 20)
#: Ping-pong of new memory, so that the choice between registering and copying is made.
PROGRAM = """
import json
import numpy as np
from pyrdv import MPI
comm, other = MPI.COMM_WORLD, 1 - MPI.COMM_WORLD.rank
size = 1 << 20
for number in range(8):
    room = np.empty(size, np.uint8)
    for sender in range(2):
        if comm.rank == sender:
            comm.Send(np.full(size, number, np.uint8), other)
        else:
            comm.Recv(room, other)
            assert (room == number).all()
known = MPI._world.calibration
picks = {name: count for name, count in MPI.counters().items() if name.startswith("picks_")}
print(json.dumps([comm.rank, known.source, known.samples, picks, known.figures]))
"""


def figures(jobs, **settings):
    """What each rank says of its figures, and what was written to standard error."""
    settings = {"XDG_CACHE_HOME": f"{jobs.folder}/cache", **settings}
    words = "; ".join(f"export {name}={value}" for name, value in settings.items())
    # A busy machine is told from a device: its figures contradict each other, and are not kept.
    for _ in range(4):
        outcome = jobs.run(PROGRAM, 2, first=words, limit=120)
        assert outcome.status == 0, outcome
        found = [row[1:] for row in sorted(map(json.loads, outcome.lines))]
        if len(settings) > 1 or all(source for source, *_rest in found):
            break
    return found, outcome.err


@pytest.fixture
def both(jobs):
    if not two_nodes():
        # On a developer's own device; in the lab a skip fails its suite (tests/lab/test_suites.py).
        pytest.skip("needs two nodes joined by a cable (make lab): measures between two devices")
    return jobs


def test_first_job_measures_second_finds(both):
    found, err = figures(both)
    assert err == ""
    for source, samples, picks, known in found:
        assert "measured when this job started, and kept in" in source, err
        assert samples > 50 and known is not None and any(picks.values())
    kept = sorted((both.folder / "cache" / "pyrdv").iterdir())
    assert len(kept) == 2
    before = [path.read_text() for path in kept]
    again, err = figures(both, PYRDV_STATS="1")
    for (source, samples, picks, known), (*_before, first) in zip(again, found, strict=True):
        assert source.startswith("kept in") and samples == 0 and any(picks.values())
        assert known["net"] == first["net"] and known["read"] == first["read"]
    assert [path.read_text() for path in kept] == before
    assert len(re.findall(r"figures of \S+: kept in \S+; 0 samples taken", err)) == 2, err
    broken(both, kept)
    unused(both, kept)


def broken(jobs, kept):
    """One warning for each device; then there are new figures."""
    for path in kept:
        path.write_text("{")
    found, err = figures(jobs)
    assert all(source.startswith("measured") for source, *_rest in found)
    assert err.count("kept are not used") == len(kept), err
    assert all(json.loads(path.read_text())["net"] for path in kept)


def unused(jobs, kept):
    for path in kept:
        path.unlink()
    for settings in ({"PYRDV_CALIBRATE": "off"}, {"PYRDV_PROFILE": "/no/such"}):
        found, _ = figures(jobs, **settings)
        for source, samples, picks, known in found:
            assert (source, samples, known) == ("", 0, None) and not any(picks.values())
    assert not list(kept[0].parent.iterdir())


def test_no_place_is_no_error(both):
    found, err = figures(both, XDG_CACHE_HOME="/proc/none")
    assert err == "" and all("and not kept" in source for source, *_rest in found)


@pytest.mark.parametrize("registration, piped", [(1.0, True), (1e-9, False)])
def test_what_is_kept_decides(both, registration, piped):
    """New memory is copied where a registration is dear, and registered where it costs nothing."""
    figures(both)
    for path in (both.folder / "cache" / "pyrdv").iterdir():
        profile = json.loads(path.read_text())
        profile |= {"latency": 1e-5, "gap": 1e-6, "overhead": 1e-6,
                    "net": [[size, 1e-5 + size / 1e8] for size in SIZES],
                    "read": [[size, 2e-5 + size / 1e8] for size in SIZES],
                    "copy": [[size, size / 5e8] for size in SIZES],
                    "registration": [[size, registration, 0.0] for size in SIZES]}
        path.write_text(json.dumps(profile))
    found, err = figures(both)
    assert err == ""
    for source, samples, picks, *_rest in found:
        assert source.startswith("kept in") and samples == 0
        assert (picks["picks_piped"] > 0) == piped, picks
