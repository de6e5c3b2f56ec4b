"""``pyrdv tune`` and ``pyrdv bench registration`` on a device."""

import json

import pytest

pytestmark = pytest.mark.verbs


def test_profile(jobs):
    """Two nodes; what is measured is the device, whose registrations cost something."""
    for _ in range(5):
        outcome = jobs.run(["-m", "pyrdv.tools.tune", "--seconds", "0.02", "--output", "out.json"],
                           2)
        if "the machine is busy" not in outcome.err:
            break
    outcome.ok()
    profile = json.loads((jobs.folder / "out.json").read_text())
    assert [name.split()[1].startswith(jobs.kind) for name in profile["ends"]] == [True, True]
    assert profile["latency"] > 1e-6
    for name in ("net", "read"):
        assert all(point[1] > 1e-6 for point in profile[name])
    for size, on, off in profile["registration"]:
        assert size >= 4096 and on > 1e-7 and off > 1e-7
    assert len(profile["registration"]) == 7 and not profile["registration_refused"]


READS = """
from pyrdv import MPI
from pyrdv.tools import bare
comm = MPI.COMM_WORLD
size = 9 << 20
pair = bare.open_pair(comm, "verbs")
memory, region, remote = pair.window(size)
memory[-1] = 65 + comm.rank
pair.exchange(None)
times = pair.meter.reads_in_a_row(region, *remote, size, 2, 3)
assert (memory[-1] == 66), memory[-1]
assert len(times) == 3
assert all(0 < each < 30 for each in times) if comm.rank == 0 else times == [0.0] * 3, times
pair.exchange(None)
region.deregister()
pair.close()
print("read")
"""


def test_reads_of_several_pieces(jobs):
    """More than one READ of the soft devices may have; its last byte arrives, too."""
    assert jobs.run(READS, 2).ok().lines == ["read"] * 2


def test_bench(jobs):
    """The largest message is more than one WRITE of the soft devices may have."""
    outcome = jobs.run(["-m", "pyrdv.tools.bench", "registration", "--sizes", "4K,9M",
                        "--seconds", "0.01", "--json", "out.json"], 2).ok()
    content = json.loads((jobs.folder / "out.json").read_text())
    assert [row["size"] for row in content["rows"]] == [4096, 9 << 20]
    for row in content["rows"]:
        assert row["registered"] > row["register"] > 1e-7
        assert row["copied"] > row["copy"] > 1e-8
    assert "naive copy of write at 9 MiB" in outcome.out


def test_registration_that_is_refused(jobs):
    """The profile then ends at the largest size that is allowed."""
    outcome = jobs.run(LIMITED, 2).ok()
    assert "cannot be registered here: see `ulimit -l`" in outcome.out
    profile = json.loads((jobs.folder / "out.json").read_text())
    assert profile["registration_refused"] is True
    assert 0 < len(profile["registration"]) < 7


LIMITED = """
import sys
from pyrdv.tools import tune
from pyrdv.calibration import measuring
whole = measuring.timed_registrations
def limited(fabric, memory, access, turns, samples):
    if len(memory) // turns > 1 << 20:
        raise OSError(12, "Cannot allocate memory")
    return whole(fabric, memory, access, turns, samples)
measuring.timed_registrations = limited
tune.doubt = lambda profile: None
sys.argv = ["tune", "--seconds", "0.01", "--output", "out.json"]
sys.exit(tune._rank_main())
"""
