"""Registering or copying over a device, by the figures of a profile (engine/choice/costs)."""

import pytest

pytestmark = pytest.mark.verbs

PROGRAM = """
import json, os, sys, tempfile
fixed, size = float(sys.argv[1]), int(sys.argv[2])
sizes = [4096, 65536, 1 << 20]
profile = {"schema": "pyrdv-tune/2", "latency": 1e-5, "gap": 1e-6, "overhead": 1e-6,
           "eager_max": 4096, "packet_max": 8192, "registration_refused": False,
           "ends": [f"verbs {kind}{i}:1" for kind in ("rxe", "siw") for i in range(2)],
           "net": [[size, 1e-5 + size / 1e8] for size in sizes],
           "read": [[size, 2e-5 + size / 1e8] for size in sizes],
           "copy": [[size, size / 5e8] for size in sizes],
           "registration": [[size, fixed, 0] for size in sizes]}
with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
    json.dump(profile, file)
os.environ["PYRDV_PROFILE"] = file.name
import numpy as np
from pyrdv import MPI
os.unlink(file.name)
comm, other = MPI.COMM_WORLD, 1 - MPI.COMM_WORLD.rank

def exchange(data, room, number):
    data[:] = number + comm.rank
    comm.Sendrecv(data, other, 0, room, other, 0)
    assert (room == (number + other) % 256).all()
    for sender in range(2):
        if comm.rank == sender:
            comm.Send(data, other, 1)
        else:
            comm.Recv(room, other, 1)
            assert (room == (number + other) % 256).all()

def new():
    return np.empty(size, np.uint8)

for number in range(20):
    exchange(new(), new(), number)
counts = [MPI.counters()]
data, room = new(), new()
for number in range(40):
    exchange(data, room, number)
counts.append(MPI.counters())
"""


@pytest.mark.parametrize("size, way", [(600_000, "piped"), (200_000, "placed")])
def test_new_memory_is_copied_and_old_is_registered(jobs, size, way):
    """Both kinds of program in one; `trust`, or iWARP devices would keep no receives registered."""
    outcome = jobs.run(PROGRAM + f"""
assert counts[0]["sends_{way}"] > 10, counts
assert counts[1]["picks_cached"] > counts[0]["picks_cached"] + 20, counts
print("exchanged")
""", 2, first="export PYRDV_REGISTRATION_CACHE=trust", args=["2e-3", str(size)], limit=80)
    assert outcome.ok().lines == ["exchanged"] * 2


@pytest.mark.parametrize("size", [600_000, 200_000])
def test_cheap_registrations(jobs, size):
    """What costs nothing is done: nothing is copied."""
    outcome = jobs.run(PROGRAM + """
assert counts[1]["sends_placed"] == counts[1]["sends_piped"] == 0 < counts[1]["reads"], counts
print("exchanged")
""", 2, args=["1e-9", str(size)], limit=80)
    assert outcome.ok().lines == ["exchanged"] * 2


def test_a_profile_of_another_device_is_a_warning(jobs):
    outcome = jobs.run(PROGRAM.replace('("rxe", "siw")', '("xyz",)')
                       + 'print("exchanged")', 2, args=["1e-9", "200000"], limit=80)
    assert outcome.status == 0 and outcome.lines == ["exchanged"] * 2, outcome
    assert "PYRDV_PROFILE is not used" in outcome.err and "xyz0:1" in outcome.err
