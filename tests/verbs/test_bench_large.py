"""``pyrdv bench overlap`` and ``exchange`` on a device: plain RDMA writes beside, nothing left."""

import json

import pytest

from pyrdv.tools import npb_kernels

pytestmark = pytest.mark.verbs

QUICK = ["--rounds", "2", "--seconds", "0.001"]


def measure(jobs, *words, ranks=2):
    done = jobs.run(["-m", "pyrdv.tools.bench", *words, "--json", "out.json"], ranks,
                    env={"PYRDV_FABRIC": "auto"}, limit=200)
    assert done.status == 0, done
    # Nothing but how far it is, if it takes long.
    assert all(line.startswith("  …") for line in done.err.splitlines()), done
    return json.loads((jobs.folder / "out.json").read_text())


def test_overlap(jobs):
    """Messages move while one side computes, where their mode can do that, and only there.

    The work takes many times what a message does, so how fast it moves is not asked.  Both roles of
    a plain write have a ceiling, and every row is set beside one.
    """
    modes = ["current", "classic", "indexed", "default"]
    content = measure(jobs, "overlap", "--sizes", "1M", "--modes", ",".join(modes), "--ratio", "5",
                      "--lead", "5", *QUICK)
    assert content["fabric"].startswith(f"verbs {jobs.kind}")
    ceilings = {one["role"]: one["end_to_end"] for one in content["ceilings"]}
    assert ceilings.keys() == {"posts", "target"}
    assert len(content["rows"]) == 4 * len(modes)
    for row in content["rows"]:
        lost = row["mode"] == "current" and row["side"] == "receiver"
        assert row["moved"] == 0 if lost else row["moved"] > 0, (row["moved"], row)
        role = "target" if row["first"] == row["side"] else "posts"
        assert row["of_ceiling"] == pytest.approx(row["end_to_end"] / ceilings[role])
        assert row["transfer"] > 0


def test_parasite(jobs):
    """What is posted first by a receiver that computes moves by signals, and not by nobody; also
    from any source.  A thread would need a processor that computes, and get it some time."""
    rows = measure(jobs, "parasite", "--parts", "overlap,any", "--sizes", "512K", "--ratio", "8",
                   "--modes", "polling,timer,event", "--lead", "5", *QUICK)["rows"]
    assert len(rows) == 3 + 3 * 4
    for row in rows:
        lost = row["mode"] == "polling" and row["first"] == row["side"] == "receiver"
        assert row["moved"] == 0 if lost else row["moved"] > 0, (row["moved"], row)
        assert row["counted"]["sends_rendezvous"] == row["samples"], row


def test_exchange(jobs):
    """RTRs are sent, and each is accounted for, when both ranks send at once."""
    rows = measure(jobs, "exchange", "--ratios", "1", "--sizes", "64K", "--modes",
                   "current,indexed-fixed", "--neighbours", "1", *QUICK)["rows"]
    assert [(row["model"], row["mode"]) for row in rows] == [
        (model, mode) for model in (1, 2) for mode in ("current", "indexed-fixed")]
    for row in rows:
        counted = row["counted"]
        if row["mode"] == "current":
            assert counted["rtrs_sent"] == 0
        elif row["model"] == 1:
            assert counted["rtrs_sent"] == counted["rtrs_received"] > 0


def test_four_ranks_exchange(jobs):
    """With both neighbours, of whom one is on the other node."""
    rows = measure(jobs, "exchange", "--ranks", "4", "--ratios", "1", "--sizes", "64K", "--modes",
                   "current,classic", "--neighbours", "2", "--models", "1", *QUICK, ranks=4)["rows"]
    assert [row["mode"] for row in rows] == ["current", "classic"]
    for row in rows:
        assert row["counted"]["sends_rendezvous"] == 4 * 2 * 2 * row["iterations"]


def test_applications(jobs):
    """Messages of class B are read, or written into offered buffers; each result is checked."""
    rows = measure(jobs, "applications", "-n", "4", "--classes", "B", "--rounds", "1",
                   "--iterations", "1", "--modes", "current,indexed", ranks=4)["rows"]
    assert len(rows) == 2 * len(npb_kernels.KERNELS)
    for row in rows:
        counted = row["counted"]
        assert counted["sends_rendezvous"] > 0 == counted["sends_placed"], row
        offers = row["mode"] == "indexed" and row["kernel"] != "lu"
        assert (counted["rtrs_sent"] > 0) == offers, row
