"""Peers that keep to no rule (R8; field cases N06, N07, N08): programs/target.py under attack.

One target, one honest rank, and one rank per act of hostile.py, which is written with pyverbs and
runs under the system's interpreter.  An act fails its own connection and nothing else.
"""

import ast
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.support.ready import readable
from tests.verbs.nodes import NODES, NodeJobs

pytestmark = pytest.mark.verbs

HERE = Path(__file__).parent
SYSTEM = "/usr/bin/python3"
VERSION, STRANGER, ALREADY, GONE = 1, 2, 4, 5
# MiB; what the target may grow by during an act, whatever it is sent.
GROWTH = 24


def acts(group):
    """Names of the acts of a group, read from hostile.py without its libraries."""
    tree = ast.parse((HERE / "hostile.py").read_text())
    table, = (node.value for node in tree.body if isinstance(node, ast.Assign)
              and getattr(node.targets[0], "id", "") == group.upper())
    return [key.value for key in table.keys]


def on_node(node, *words):
    """The words that run a command on a node of the lab."""
    where = ["nsenter", f"--net={NODES[node]}"] if NODES[node].exists() else []
    return [*where, *words]


class Reader:
    """Lines of a process, kept by a thread."""

    def __init__(self, process):
        self.process, self.lines, self.news = process, [], threading.Condition()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines.append("end of output")
            self.news.notify_all()

    def wait(self, *beginnings, limit=15.0, after=0):
        """The first line behind number `after` that begins so; None if none comes in time."""
        end = time.monotonic() + limit
        with self.news:
            while True:
                for line in self.lines[after:]:
                    if line.startswith(beginnings):
                        return line
                left = end - time.monotonic()
                if left <= 0 or self.lines and self.lines[-1] == "end of output":
                    return None
                self.news.wait(left)


class Scene:
    """The target, the honest rank, and the hostile one."""

    def __init__(self, folder, device, ring):
        self.folder, self.token = Path(folder), secrets.token_hex(16)
        self.jobs = NodeJobs(folder, device)
        self.ring = ring
        self.next = 2
        self.hostile = None
        size = 2 + sum(len(acts(group)) for group in GROUPS) + 20
        self.target, self.honest = (
            self._start(on_node(rank, sys.executable, HERE / "programs" / "target.py", rank, size,
                                self.jobs.name(rank), ring, self.token))
            for rank in range(2))
        self.lines, self.others = Reader(self.target), Reader(self.honest)
        assert self.lines.wait("ready", limit=30), self.report()
        assert self.others.wait("ready", limit=30), self.report()
        self.order = self._order()

    def _start(self, words, **more):
        return subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=self.folder, env=self.jobs.environment(),
            stderr=open(self.folder / f"errors{time.monotonic_ns()}", "w"), **more)  # noqa: SIM115

    def _order(self):
        from pyrdv.fabrics.verbs.fabric import parse_address

        candidates, ports = parse_address(0, bytes.fromhex((self.folder / "address0").read_text()))
        first = next(n for n, one in enumerate(candidates) if one.family == 4)
        far = 1 if self.jobs.two else 0
        own = f"10.77.0.{far + 1}" if self.jobs.two else candidates[first].address
        return {"address": candidates[first].address, "source": own, "token": self.token,
                "port": int.from_bytes(ports[first], "big"), "rank": 0}

    def report(self):
        """What the processes said."""
        errors = "".join(path.read_text() for path in sorted(self.folder.glob("errors*")))
        return f"{self.lines.lines[-8:]}\n{errors[-4000:]}"

    def rank(self):
        """A rank that nobody has played."""
        self.next += 1
        return self.next - 1

    def send(self, group, name, rank):
        """Start an act; returns the process that plays it."""
        if self.hostile is None or self.hostile.poll() is not None:
            self.hostile = self._start(on_node(1, SYSTEM, HERE / "hostile.py",
                                               json.dumps(self.order)))
        self.hostile.stdin.write(json.dumps([group, name, rank]) + "\n")
        self.hostile.stdin.flush()
        return self.hostile

    def play(self, group, name, rank, limit=20):
        """Play an act; returns what the hostile one saw."""
        process = self.send(group, name, rank)
        line = process.stdout.readline() if readable(process.stdout, limit) else ""
        assert line, f"the hostile peer failed: {self.report()}"
        return json.loads(line)

    def mark(self):
        """Where the target's lines are now."""
        return len(self.lines.lines)

    def beats(self):
        """Messages exchanged with the honest rank so far, and the target's memory in bytes."""
        line = self.lines.wait("beat", after=self.mark())
        assert line, f"the target is gone: {self.report()}"
        return [int(word) for word in line.split()[1:]]

    def end(self):
        """The target's counters, after an orderly end."""
        if self.hostile is not None:
            self.hostile.stdin.close()
            self.hostile.wait()
        self.target.stdin.close()
        line = self.lines.wait("counters", limit=20)
        assert line, self.report()
        assert self.lines.wait("ended", limit=20), self.report()
        assert self.target.wait(20) == 0 and self.honest.wait(20) == 0, self.report()
        return json.loads(line.split(" ", 1)[1])

    def close(self):
        """End what still runs."""
        for process in (self.target, self.honest, self.hostile):
            if process is not None:
                with contextlib.suppress(OSError):
                    process.kill()
                process.wait()
        for reader in (self.lines, self.others):
            reader.thread.join(10)
        self.jobs.close()


GROUPS = ("before", "first", "after", "deadly", "either", "harmless")


@pytest.fixture(scope="module")
def scene(rdma_device):
    with tempfile.TemporaryDirectory(prefix="verbs-") as folder:
        made = Scene(folder, rdma_device, "on")
        yield made
        made.close()


@pytest.fixture
def calm(scene):
    """The scene; after the act the target still serves the honest rank, and has not grown."""
    count, memory = scene.beats()
    yield scene
    after, grown = scene.beats()
    assert after > count, scene.report()
    assert grown - memory < GROWTH << 20, f"{(grown - memory) / 1e6:.0f} MB"
    assert scene.honest.poll() is None, scene.report()


def lost(scene, rank, since, limit=15):
    """The target's error for a rank, which names it."""
    line = scene.lines.wait(f"lost {rank} ", f"failed {rank} ", limit=limit, after=since)
    assert line is not None and line.startswith("lost"), f"{line}: {scene.report()}"
    assert f"rank {rank}" in line, line
    return line


def good(scene, rank, since, text="still here"):
    """The target has got the message of a rank."""
    line = scene.lines.wait(f"lost {rank} ", f"got {rank} ", f"failed {rank} ", after=since)
    assert line == f"got {rank} {text}", f"{line}: {scene.report()}"


@pytest.mark.parametrize("name", acts("before"))
def test_request(calm, name):
    """Wrong requests are refused with a reason, and do not lose the rank they name."""
    rank, since = calm.rank(), calm.mark()
    seen = calm.play("before", name, rank)
    if name == "right":
        assert seen["open"], seen
        return
    assert not seen["open"], seen
    reason = VERSION if name == "wrong version" else STRANGER
    assert seen["reject"] == {"magic": True, "version": 1, "reason": reason}, seen
    calm.play("harmless", "right", rank)
    good(calm, rank, since)


@pytest.mark.parametrize("name", acts("first"))
def test_first_packet(calm, name):
    """An accepted connection that does not say HELLO is dropped, and the rank is not lost."""
    rank, since = calm.rank(), calm.mark()
    assert calm.play("first", name, rank)["open"]
    # A new request takes the place of a connection that never came up.
    calm.play("harmless", "right", rank)
    good(calm, rank, since)


@pytest.mark.parametrize("name", acts("after"))
def test_breaks_the_rules(calm, name):
    rank, since = calm.rank(), calm.mark()
    calm.play("after", name, rank)
    if name in FIRST_IS_GOOD:
        good(calm, rank, since, "hostile")
    lost(calm, rank, since)
    # Lost is lost: it cannot come back.  (A connection that the engine gave up may still be there.)
    seen = calm.play("before", "right", rank)
    assert not seen["open"] and seen["reject"]["reason"] in (GONE, ALREADY), seen


# Acts of which the first message is proper and received.
FIRST_IS_GOOD = ("number repeated", "number from the past", "leaves",
                 "impossible length in the ring", "impossible credits in the ring",
                 "engine noise in the ring")


@pytest.mark.parametrize("name", acts("deadly"))
def test_dies(calm, name):
    rank, since = calm.rank(), calm.mark()
    process = calm.send("deadly", name, rank)
    lost(calm, rank, since)
    process.wait(10)


@pytest.mark.parametrize("name", acts("either"))
def test_either(calm, name):
    """Only that nobody else is harmed."""
    calm.play("either", name, calm.rank())


@pytest.mark.parametrize("name", acts("harmless"))
def test_bad_manners(calm, name):
    """What harms nobody is no reason to give a peer up."""
    rank, since = calm.rank(), calm.mark()
    calm.play("harmless", name, rank)
    ringing = name in ("noise in the open ring", "wrong checksum in the ring",
                       "well-behaved ring")
    good(calm, rank, since, "hostile" if ringing else "still here")


def test_second_link_of_a_live_rank(calm):
    """Somebody plays the honest rank: refused, and the real one goes on."""
    seen = calm.play("before", "right", 1)
    assert not seen["open"] and seen["reject"]["reason"] == ALREADY, seen


def test_strangers(calm):
    """N06: 200 of them knock, each with other noise."""
    seen = calm.play("strangers", "", 200, limit=60)
    assert seen["refusals"] == 200, seen


def test_the_end(scene):
    """After all that: an orderly end, with nothing left in the kernel."""
    counters = scene.end()
    assert counters["refused"] >= 200, counters
    # The ring was used by the honest rank too.
    assert counters["packets"] > 0, counters
    for _ in range(100):
        if not scene.jobs.left():
            return
        time.sleep(0.1)
    pytest.fail(f"left in the kernel: {scene.jobs.left()}")


STARTING = """
import os, time
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
fabric = MPI._world.engine.fabrics[-1]
if comm.rank == 0:
    with open("new", "w") as file:
        file.write(fabric.address.hex())
    os.rename("new", "address0")
    # The first contact comes when strangers stand in the queue.
    while not os.path.exists("knocking"):
        time.sleep(0.01)
    time.sleep(0.3)
for number in range(300):
    for size in (8, 30_000):
        room = np.empty(size, np.uint8)
        comm.Sendrecv(np.full(size, number % 251, np.uint8), other, 0, room, other, 0)
        assert (room == number % 251).all()
while not comm.bcast(comm.rank and os.path.exists("done"), 1):
    time.sleep(0.01 * comm.rank)    # rank 0 waits, and so hears of strangers
if comm.rank == 0:
    print("refused", fabric.counters["refused"])
"""


def test_strangers_while_a_job_starts(jobs):
    """N06: 1000 strangers knock at a job that makes its first contact: it works as ever."""
    from pyrdv.fabrics.verbs.fabric import parse_address

    process = jobs.start(STARTING, 2)
    candidates, ports = parse_address(0, bytes.fromhex(jobs.read("address0")))
    first = next(n for n, one in enumerate(candidates) if one.family == 4)
    order = {"address": candidates[first].address, "token": "", "rank": 0,
             "port": int.from_bytes(ports[first], "big"),
             "source": "10.77.0.2" if jobs.two else candidates[first].address}
    crowd = [jobs.execute(on_node(1, SYSTEM, str(HERE / "hostile.py"), json.dumps(order)),
                          stdin=subprocess.PIPE) for _ in range(2)]
    for one in crowd:
        one.stdin.write(json.dumps(["strangers", "", 500]).encode() + b"\n")
        one.stdin.close()
    os.rename(jobs.write("", "nobody"), jobs.folder / "knocking")
    for one in crowd:
        out = one.stdout.read()
        assert json.loads(out)["refusals"] == 500, one.stderr.read()
        assert one.wait(10) == 0
    (jobs.folder / "done").touch()
    outcome = jobs.finish(process, 60).ok()
    # A refusal of the two ranks to each other, who both connect, may be among them.
    assert int(outcome.out.split()[1]) >= 1000, outcome
    jobs.check_clean()
