"""``pyrdv bench overlap`` and ``exchange`` on a device: plain RDMA writes beside, nothing left."""

import json

import pytest

pytestmark = pytest.mark.verbs

# What is smaller is placed on these devices, and no buffer is offered for it.
QUICK = ["--sizes", "1M", "--rounds", "2", "--seconds", "0.001", "--modes",
         "current,indexed-fixed", "--json", "out.json"]


def measure(jobs, *words):
    done = jobs.run(["-m", "pyrdv.tools.bench", *words, *QUICK], 2, env={"PYRDV_FABRIC": "auto"})
    assert done.status == 0, done
    # Nothing but how far it is, if it takes long.
    assert all(line.startswith("  …") for line in done.err.splitlines()), done
    return json.loads((jobs.folder / "out.json").read_text())


def test_overlap(jobs):
    """Both roles of a plain write have a ceiling, and every row is set beside one."""
    content = measure(jobs, "overlap")
    assert content["fabric"].startswith(f"verbs {jobs.kind}")
    ceilings = {one["role"]: one["end_to_end"] for one in content["ceilings"]}
    assert ceilings.keys() == {"posts", "target"}
    assert len(content["rows"]) == 8
    for row in content["rows"]:
        role = "target" if row["first"] == row["side"] else "posts"
        assert row["of_ceiling"] == pytest.approx(row["end_to_end"] / ceilings[role])
        assert row["transfer"] > 0 and row["hidden"] < 1


def test_exchange(jobs):
    """RTRs are sent, and each is accounted for, when both ranks send at once."""
    rows = measure(jobs, "exchange", "--ratios", "1")["rows"]
    assert [(row["model"], row["mode"]) for row in rows] == [
        (model, mode) for model in (1, 2) for mode in ("current", "indexed-fixed")]
    for row in rows:
        counted = row["counted"]
        if row["mode"] == "current":
            assert counted["rtrs_sent"] == 0
        elif row["model"] == 1:
            assert counted["rtrs_sent"] == counted["rtrs_received"] > 0
