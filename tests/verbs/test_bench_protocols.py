"""``pyrdv bench first-touch`` and ``kernels`` on a device: they see registrations."""

import json

import pytest

from pyrdv.tools import bench_first_touch as first_touch, bench_protocols as protocols

pytestmark = pytest.mark.verbs


def measure(jobs, *words):
    outcome = jobs.run(["-m", "pyrdv.tools.bench", *words, "--json", "out.json"], 2).ok()
    content = json.loads((jobs.folder / "out.json").read_text())
    assert content["fabric"].startswith(f"verbs {jobs.kind}")
    return content, outcome.out


def copied(counted):
    """Large messages that went through bounce buffers."""
    return counted["sends_piped"] + counted["sends_placed"]


def test_first_touch(jobs):
    """A sample registers its arrays once where they stay so, and no sample finds another's."""
    content, out = measure(jobs, "first-touch", "--sizes", "128K", "--samples", "2", "--seconds",
                           "0.001")
    assert len(content["rows"]) == 2 * len(first_touch.NAMES)
    counted = content["counted"]
    # With the warm-up: samples on rank 0, each with an array to send and one to receive into.
    samples = 1 + 2 * len(first_touch.TOUCHES)
    assert counted["get-trust"]["registration_misses"] == 2 * samples
    assert counted["get-trust"]["registration_hits"] >= 2 * 2 + 2 * 3 * (samples - 1)
    assert counted["get-off"]["registration_hits"] == 0
    assert copied(counted["pipeline"]) > 0 == copied(counted["get-off"])
    assert counted["pipeline"]["sends_placed"] == 0 < counted["placed"]["sends_placed"]
    assert not content["refused"]
    assert "128 KiB, untouched" in out


def test_pipeline(jobs):
    """What fits a bounce buffer is placed, but where superpipeline alone is measured."""
    content, _ = measure(jobs, "pipeline", "--sizes", "64K,1M", "--seconds", "0.01", "--turns", "1")
    counted = content["counted"]
    assert counted["placed"]["sends_placed"] > 0 < counted["placed"]["sends_piped"]
    for way in ("pipeline", "flags"):
        assert counted[way]["sends_placed"] == 0 < counted[way]["sends_piped"]
    assert counted["get"]["sends_placed"] == counted["get"]["sends_piped"] == 0


def test_kernels(jobs):
    """Arrays that are used again are found registered, new ones are not."""
    content, out = measure(jobs, "kernels", "--rounds", "2", "--iterations", "3", "--bytes", "128K")
    rows = {(row["kernel"], row["way"]): row["counted"] for row in content["rows"]}
    assert list(rows) == [(name, way) for name in ("is", "cg") for way in protocols.WAYS]
    for (name, way), counted in rows.items():
        if way != "auto":
            assert (copied(counted) > 0) == (way in ("placed", "pipeline")), (name, way)
            assert (counted["sends_placed"] > 0) == (way == "placed"), (name, way)
        if way == "get-off":
            assert counted["registration_hits"] == 0
    assert not content["refused"]
    runs = 3                    # the first is not counted among the times; of two ranks
    assert rows["cg", "get-trust"]["registration_hits"] > runs * 3
    assert rows["cg", "get-trust"]["registration_misses"] <= 2 * 4
    assert rows["is", "get-trust"]["registration_hits"] == 0
    assert rows["is", "get-trust"]["registration_misses"] >= runs * 3
    assert "cg: auto takes" in out
