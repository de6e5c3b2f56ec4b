"""Peers that die, stop, lose their device or their cable (issue 3, Failure; field cases N08, N10).

In each test ranks 0 and 2 lose each other while something is under way between them, and rank 0
goes on with rank 1 (programs/loss.py).  The launcher would tell the survivors of a dead process
too, so it is stopped meanwhile: what is measured is the fabric.
"""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.support.jobs import wait_until
from tests.verbs.nodes import now

pytestmark = pytest.mark.verbs

LOSS = Path(__file__).parent / "programs" / "loss.py"
# Rank 0 sends or receives; "ring" is a stream of RDMA writes.
PLACES = ("idle", "stream", "sending", "ring", "read", "write")
# s; the limit for a killed process, whatever the peer timeout is.
KILLED = 1.0
# s; a peer timeout: soft devices on a busy machine have been seen to pause for half a second.
BUSY = 2.0
# s; what else may take its time on a machine that is busy with other things.
SLACK = 1.0


class Lost:
    """A job of programs/loss.py in the middle of its traffic."""

    def __init__(self, jobs, place, hosts, timeout=None):
        self.jobs = jobs
        environment = {"PYRDV_RDMA_RING": "on" if place == "ring" else "auto"}
        if timeout is not None:
            environment["PYRDV_PEER_TIMEOUT"] = str(timeout)
        self.process = jobs.start([LOSS, place], 3, "--grace", "60", hosts=hosts,
                                  env=environment)
        if not wait_until((jobs.folder / "ready").exists, 20):
            self.give_up("not ready")
        time.sleep(0.15)
        self.ranks = jobs.ranks()
        self.launcher(signal.SIGSTOP)
        self.began = None

    def give_up(self, why):
        """Fail, with what the processes did and said."""
        files = sorted(path.name for path in self.jobs.folder.iterdir())
        stacks = self.jobs.stacks()
        self.jobs.kill_all()
        pytest.fail(f"{why}: {files}\n{stacks}\n{self.jobs.finish(self.process)}", pytrace=False)

    def abandon(self):
        """End it as if it had never been: this trial shows nothing."""
        self.jobs.kill_all()
        self.jobs.finish(self.process)
        for path in self.jobs.folder.iterdir():
            if path.name in ("ready", "goes-on") or path.name.startswith("told"):
                path.unlink()

    def launcher(self, which):
        os.kill(self.process.pid, which)

    def kill(self, rank, which=signal.SIGKILL):
        self.began = now()
        os.kill(self.ranks[rank], which)

    def do(self, function, *arguments):
        """What takes the peer away; from here the time counts."""
        self.began = now()
        function(*arguments)

    def told(self, rank, within, record=None):
        """Demand that `rank` is told in time; returns the text of the error."""
        if not wait_until((self.jobs.folder / f"told{rank}").exists, within + 10):
            self.give_up(f"rank {rank} was not told")
        text = self.jobs.read(f"told{rank}")
        moment, text = text.split(" ", 1)
        seconds = float(moment) - self.began
        print(f"rank {rank} was told after {seconds * 1000:.0f} ms: {text}")
        if record:
            record(f"rank {rank} was told after", f"{seconds * 1000:.0f} ms: {text}")
        assert seconds < within, f"told after {seconds:.2f} s: {text}"
        return text

    def end(self, status, told=()):
        """Let the job end; everything that was demanded of the survivors has been done."""
        self.jobs.wait_file("goes-on", 20)
        self.launcher(signal.SIGCONT)
        outcome = self.jobs.finish(self.process, 30)
        assert outcome.status == status, outcome
        assert "Traceback" not in outcome.err, outcome
        assert outcome.lines == [f"ended {rank}" for rank in told], outcome
        self.jobs.check_clean()


@pytest.mark.parametrize("place", PLACES)
def test_killed(jobs, place, record_property):
    """With the default timeout of 5 s."""
    job = Lost(jobs, place, "node0:1,node1:2")
    job.kill(2)
    job.told(0, KILLED, record_property)
    job.end(137, (0, 1))


@pytest.mark.parametrize("place", ["idle", "stream", "read"])
def test_stopped_then_killed(jobs, place, record_property):
    """A stopped process is alive, as long as its machine answers; then it is killed."""
    job = Lost(jobs, place, "node0:1,node1:2", timeout=BUSY)
    job.kill(2, signal.SIGSTOP)
    time.sleep(1.5 * BUSY)
    assert not (jobs.folder / "told0").exists(), (jobs.folder / "told0").read_text()
    job.kill(2)
    job.told(0, KILLED, record_property)
    job.end(137, (0, 1))


@pytest.mark.parametrize("place", ["idle", "read"])
def test_stopped_and_continued(jobs, place):
    """It loses nothing and goes on, beyond the timeout."""
    job = Lost(jobs, place, "node0:1,node1:2", timeout=BUSY)
    job.kill(2, signal.SIGSTOP)
    time.sleep(1.5 * BUSY)
    job.kill(2, signal.SIGCONT)
    time.sleep(1)
    assert not (jobs.folder / "told0").exists(), (jobs.folder / "told0").read_text()
    assert not (jobs.folder / "told2").exists(), (jobs.folder / "told2").read_text()
    job.kill(2)
    job.told(0, KILLED)
    job.end(137, (0, 1))


@pytest.mark.parametrize("place", ["idle", "stream", "read", "write"])
def test_device_removed(jobs, cable, place, record_property):
    """`rdma link del` in use: it does not hang, and both sides are told.

    siw tells nobody and waits for its users: there the job goes on, and the removal ends with it.
    """
    job = Lost(jobs, place, "node0:2,node1:1", timeout=2)
    removal = threading.Thread(target=job.do, args=(cable.remove, 1))
    removal.start()
    if cable.waits_for_users:
        removal.join(1)
        for rank in (0, 2):
            assert not (jobs.folder / f"told{rank}").exists()
        job.kill(2)
        job.told(0, KILLED)
        job.end(137, (0, 1))
    else:
        near = job.told(2, 2 + SLACK, record_property)
        assert "device" in near and jobs.name(1) in near, near
        job.told(0, 2 + SLACK, record_property)
        job.end(0, (0, 1, 2))
    removal.join(10)
    assert not removal.is_alive()
    cable.mend()
    usable(jobs)


@pytest.mark.parametrize(("place", "silent"), [
    ("idle", False), ("stream", False), ("read", False),
    ("idle", True), ("sending", True), ("read", True), ("write", True),
], ids=lambda value: value if isinstance(value, str) else "silent" if value else "down")
def test_cable_cut(jobs, cable, place, silent, record_property):
    """N10: both sides are told in time, whether or not the cut is visible."""
    job = Lost(jobs, place, "node0:2,node1:1", timeout=2)
    if silent:
        job.do(cable.lose, 100)
    else:
        job.do(cable.cut)
    for rank in (0, 2):
        text = job.told(rank, 2 * cable.bound + SLACK, record_property)
        assert "10.77.0." in text and jobs.name(0 if rank == 0 else 1) in text, text
    # So that rank 2 can tell the launcher that it ends.
    cable.plug()
    job.end(0, (0, 1, 2))
    cable.mend()
    usable(jobs)


@pytest.mark.parametrize("place", ["idle", "stream", "read", "write"])
def test_cable_cut_for_less(jobs, cable, place):
    """For less than the timeout, by little: nothing is lost, whatever was under way (Q1 to Q3).

    On a busy machine the cut may last longer than it should, or the answer behind it come late: the
    system asks for an address for a second, and the data under way is sent again first.  So once is
    no proof; what is wrong in the library happens each time.
    """
    limit, lost = 4, ""
    for trials in range(5, 0, -1):
        job = Lost(jobs, place, "node0:2,node1:1", timeout=limit)
        job.do(cable.lose, 100)
        time.sleep(0.85 * limit)
        cable.lose(0)
        if now() - job.began <= limit:
            # Beyond the moment in which a longer cut would have been noticed.
            time.sleep(max(0, job.began + cable.bound * limit + SLACK - now()))
            told = [jobs.folder / f"told{rank}" for rank in (0, 2)]
            lost = "; ".join(path.read_text() for path in told if path.exists())
            if not lost:
                break
            print(f"lost after a short cut, {trials - 1} trials are left: {lost}")
        if trials == 1:
            job.give_up(lost or "the machine is too busy to cut the cable for so short a time")
        job.abandon()
    job.kill(2)
    # The first packet that tells may be lost: after a cut, neighbours ask each other's addresses.
    job.told(0, cable.bound * limit + SLACK)
    job.end(137, (0, 1))


TRAFFIC = """
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
for number in range(60):
    for size in (8, 3000, 16000, 60_000):
        data = np.full(size, number, np.uint8)
        room = np.empty_like(data)
        comm.Sendrecv(data, other, 0, room, other, 0)
        assert (room == number).all()
kept = [comm.Isend(np.full(100, n), other, 1) for n in range(500)]
for n in range(500):
    room = np.empty(100, int)
    comm.Recv(room, other, 1)
    assert (room == n).all()
MPI.Request.Waitall(kept)
print("arrived")
"""


def usable(jobs):
    """The devices serve another job."""
    assert jobs.run(TRAFFIC, 2).ok().out == "arrived\n" * 2


def test_one_percent_lost(jobs, cable):
    """N08: packets are lost, messages are not, and nobody is given up."""
    cable.lose(1)
    outcome = jobs.run(TRAFFIC, 2, limit=60)
    assert outcome.ok().out == "arrived\n" * 2


OFFERED = """
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
for number in range(40):
    rooms = [np.empty(100_000, np.uint8) for _ in range(6)]
    receives = [comm.Irecv(room, other, tag) for tag, room in enumerate(rooms)]
    sends = [comm.Isend(np.full(100_000, number + tag, np.uint8), other, tag) for tag in range(6)]
    MPI.Request.Waitall(receives + sends)
    assert all((room == number + tag).all() for tag, room in enumerate(rooms))
print("arrived")
"""


@pytest.mark.parametrize("speculation", ["off", "indexed"])
def test_one_percent_lost_both_ways_at_once(jobs, cable, speculation):
    """Reads and writes lie behind fenced packets, and any of these may be lost (V4c)."""
    cable.lose(1)
    outcome = jobs.run(OFFERED, 2, limit=120, env={"PYRDV_SPECULATION": speculation})
    assert outcome.ok().out == "arrived\n" * 2


def test_many_connections_come_and_go(jobs):
    """N08, shrunk: 150 links are made and closed; the devices go on."""
    outcome = jobs.run([LOSS.parent / "meeting.py", "150"], 2)
    assert outcome.ok().lines == ["150 pairs met"] * 2


def test_first_contact_with_the_dead(jobs):
    """A rank that was killed before anybody spoke to it: an error within the timeout."""
    process = jobs.start("""
import os, signal, sys, time
from pyrdv import MPI
from pyrdv.errors import PeerLostError
comm = MPI.COMM_WORLD
if comm.rank == 1:
    open("here", "w").close()
    time.sleep(60)
while not os.path.exists("killed"):
    time.sleep(0.01)
began = time.monotonic()
for call in (lambda: comm.send(1, 1), lambda: comm.send(b"x" * 100_000, 1),
             lambda: comm.recv(None, 1)):
    try: call()
    except PeerLostError as error: assert error.peer == 1 and "rank 1" in str(error), error
    else: raise AssertionError("no error")
assert time.monotonic() - began < 4
open("told", "w").close()
""", 2, "--grace", "60", env={"PYRDV_PEER_TIMEOUT": "1"})
    jobs.wait_file("here")
    rank = jobs.ranks()[1]
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(rank, signal.SIGKILL)
    # Its end takes the listener away; until then the kernel would answer.
    assert wait_until(lambda: dead(rank), 10)
    (jobs.folder / "killed").touch()
    jobs.wait_file("told", 15)
    os.kill(process.pid, signal.SIGCONT)
    outcome = jobs.finish(process, 30)
    assert outcome.status == 137 and "Traceback" not in outcome.err, outcome
    jobs.check_clean()


def dead(pid):
    """Whether a process has ended, waited for or not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_all_killed_leaves_nothing(jobs):
    """X02: launcher and ranks killed in traffic: the kernel frees everything; the next works."""
    code = """
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
data = np.ones(300_000)
while True:
    comm.Sendrecv(data, other, 0, np.empty_like(data), other)
    open(f"ready{comm.rank}", "w").close()
"""
    process = jobs.start(code, 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    jobs.kill_all()
    process.wait()
    jobs.check_clean()
    usable(jobs)


def test_told_by_the_launcher_too(jobs):
    """A kill while the launcher is awake: one error, no hang, the right status."""
    process = jobs.start([LOSS, "stream"], 3, "--grace", "60", hosts="node0:1,node1:2")
    jobs.wait_file("ready")
    time.sleep(0.1)
    os.kill(jobs.ranks()[2], signal.SIGKILL)
    jobs.wait_file("goes-on", 20)
    outcome = jobs.finish(process, 30)
    assert outcome.status == 137 and outcome.lines == ["ended 0", "ended 1"], outcome
    jobs.check_clean()
