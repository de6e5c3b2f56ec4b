"""What ranks say of a job that hangs, or that lost one of them."""

import os
import re
import signal

import pytest

from pyrdv import diagnosis
from pyrdv.engine import traced
from tests.support.jobs import wait_until

HEAD = """\
import os, signal, sys, time
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
rank, other = comm.rank, 1 - comm.rank
def ready():
    open(f"ready{rank}", "w").close()
"""


def said(err, rank):
    """The lines of a rank, without their beginning."""
    head = f"pyrdv: rank {rank}: "
    return [line.removeprefix(head) for line in err.splitlines() if line.startswith(head)]


class Asked:
    """A job whose ranks are asked by SIGUSR2 once all are ready."""

    def __init__(self, jobs, source, ranks, *options, **more):
        self.log = jobs.folder / "err"
        with open(self.log, "w") as file:
            self.process = jobs.start(HEAD + source, ranks, *options, stderr=file, **more)
        for rank in range(ranks):
            jobs.wait_file(f"ready{rank}")

    def ask(self, *parts):
        """Ask again and again until all `parts` were said; a rank may just come to its wait."""
        def told():
            text = self.log.read_text()
            if all(part in text for part in parts):
                return True
            self.process.send_signal(signal.SIGUSR2)
            return False

        assert wait_until(told, 60.0), self.log.read_text()
        return self.log.read_text()


def test_a_signal_asks(jobs):
    """Whoever waits says what for, whoever computes says where; and the job goes on."""
    asked = Asked(jobs, """
if rank == 0:
    ready()
    comm.Recv(np.zeros(10), source=1, tag=7)
else:
    comm.send("unwanted", 0, tag=8)
    ready()
    def work():
        while not os.path.exists("go"): time.sleep(0.01)
    work()
    comm.Send(np.zeros(10), 0, tag=7)
    comm.send("end", 0, tag=9)
if rank == 0: print(comm.recv(source=1, tag=8), comm.recv(source=1, tag=9))
""", 2)
    err = asked.ask("Recv(source=1, tag=7)", "(work)")
    mine = next(line for line in said(err, 0) if line.startswith("Recv("))
    assert re.fullmatch(r"Recv\(source=1, tag=7\) posted [\d.]+ m?s ago, no announcement", mine)
    assert any(re.fullmatch(r"nobody has received a message of \d+ bytes from rank 1, tag 8", line)
               for line in said(err, 0))
    assert any(re.match(r"last: .* ago: post, receive, rank 1, tag 7, 80 bytes", line)
               for line in said(err, 0))
    assert "no operation is under way" in said(err, 1)
    assert any(re.fullmatch(r"is at prog.py:\d+ \(work\)", line) for line in said(err, 1))
    (jobs.folder / "go").touch()
    out, _ = asked.process.communicate(timeout=60)
    assert (asked.process.returncode, out) == (0, b"unwanted end\n")


def test_one_rank_is_asked(jobs):
    """The signal sent to a rank's own process: it answers, and no other does."""
    asked = Asked(jobs, """
if rank == 1:
    with open("pid", "w") as file: file.write(str(os.getpid()))
ready()
comm.Recv(np.zeros(10), source=other, tag=7)
""", 2)
    pid = int((jobs.folder / "pid").read_text())

    def told():
        if "rank 1: Recv(source=0, tag=7) posted" in asked.log.read_text():
            return True
        os.kill(pid, signal.SIGUSR2)
        return False

    assert wait_until(told, 60.0), asked.log.read_text()
    assert said(asked.log.read_text(), 0) == []
    asked.process.send_signal(signal.SIGTERM)
    assert asked.process.wait(60) == 143


def test_sends_that_cross(jobs):
    asked = Asked(jobs, """
data = np.zeros(1 << 20)
ready()
comm.Ssend(data, other, tag=3)
""", 2, "--trace-lines")
    err = asked.ask("rank 0: Ssend(dest=1", "rank 1: Ssend(dest=0", "8388608 bytes from rank 1")
    line = (HEAD + "\n").count("\n") + 3
    for rank in range(2):
        assert any(re.match(
            rf"Ssend\(dest={1 - rank}, tag=3, 8388608 bytes\) posted [\d.]+ m?s ago at "
            rf"prog.py:{line}, announced as get .*; rank {1 - rank} has not taken it", text)
            for text in said(err, rank)), err
    asked.process.send_signal(signal.SIGTERM)
    assert asked.process.wait(60) == 143


def test_the_time_is_up(jobs):
    """Both receive."""
    outcome = jobs.run(HEAD + """
comm.Recv(np.zeros(10), source=other, tag=MPI.ANY_TAG)
""", 2, "--timeout", "8", "--trace-lines")
    assert outcome.status == 124
    line = HEAD.count("\n") + 2
    for rank in range(2):
        assert any(re.fullmatch(
            rf"Recv\(source={1 - rank}, tag=ANY_TAG\) posted [\d.]+ s ago at prog.py:{line}, "
            "no announcement", text) for text in said(outcome.err, rank)), f"{outcome}"


def test_calls_that_do_not_meet(jobs):
    asked = Asked(jobs, """
half = comm.Split(0, -rank)
ready()
if rank == 0:
    half.Barrier()
else:
    half.Recv(np.zeros(1), source=MPI.ANY_SOURCE, tag=5)
""", 2)
    err = asked.ask("Barrier (call 0, communicator", "Recv(source=ANY_SOURCE, tag=5")
    assert any(re.match(r"Barrier \(call 0, communicator \d+\): receive from \d posted", line)
               for line in said(err, 0)), err
    asked.process.send_signal(signal.SIGTERM)
    assert asked.process.wait(60) == 143


def test_a_collective_says_which_algorithm_it_is(jobs):
    """And why: by the table, or by the knob."""
    asked = Asked(jobs, """
ready()
if rank == 0:
    requests = [comm.Iallreduce(np.ones(3), np.zeros(3)), comm.Ibcast(np.zeros(3), 1)]
    MPI.Request.Waitall(requests)
else:
    comm.Recv(np.zeros(1), source=MPI.ANY_SOURCE, tag=5)
""", 2, env={"PYRDV_COLLECTIVES": "bcast=chain"})
    err = asked.ask("Iallreduce (call 0)", "Ibcast (call 0)")
    lines = said(err, 0)
    for call, way in (("Iallreduce", "allreduce doubling (up to 16 KiB: the fewest rounds)"),
                      ("Ibcast", "bcast chain (PYRDV_COLLECTIVES)")):
        assert any(line.startswith(f"{call} (call 0) posted") and f", is {way}, waits for" in line
                   for line in lines), err
    asked.process.send_signal(signal.SIGTERM)
    assert asked.process.wait(60) == 143


def test_a_rank_that_is_lost(jobs):
    """What else was under way when the loss ended the program."""
    outcome = jobs.run(HEAD + """
if rank == 0:
    wait = comm.Irecv(np.zeros(10), source=2, tag=8)
    comm.Recv(np.zeros(10), source=1, tag=7)
elif rank == 1:
    os._exit(3)
else:
    comm.Recv(np.zeros(10), source=0, tag=6)     # it lives as long as rank 0
""", 3)
    assert outcome.status == 3 and outcome.err.count("PeerLostError") >= 2, f"{outcome}"
    lines = said(outcome.err, 0)
    assert any(re.match(r"Irecv\(source=2, tag=8\) posted", line) for line in lines), f"{outcome}"
    assert any("peer lost, rank 1" in line for line in lines), f"{outcome}"
    assert "no operation is under way" in said(outcome.err, 2), f"{outcome}"


def test_other_errors_say_nothing_of_it(jobs):
    outcome = jobs.run(HEAD + """
comm.Barrier()
raise ValueError("own mistake")
""", 1)
    assert outcome.status == 1 and "pyrdv: rank" not in outcome.err, f"{outcome}"


def test_the_program_keeps_its_own_handler(jobs):
    asked = Asked(jobs, """
signal.signal(signal.SIGUSR2, lambda *_: open(f"own{rank}", "w").close())
ready()
comm.Recv(np.zeros(10), source=other, tag=7)
""", 2)
    asked.process.send_signal(signal.SIGUSR2)
    for rank in range(2):
        jobs.wait_file(f"own{rank}")
    assert "Recv(" not in asked.log.read_text()
    asked.process.send_signal(signal.SIGTERM)
    assert asked.process.wait(60) == 143


def test_a_forked_child_is_no_rank(jobs):
    """The signal ends it, as it would end any program."""
    outcome = jobs.run(HEAD + """
comm.Barrier()
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGUSR2)
    time.sleep(60)
    os._exit(0)
print(os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGUSR2)
""", 2)
    assert (outcome.status, outcome.lines) == (0, ["True", "True"]), f"{outcome}"


def test_every_state_has_words():
    states = {*traced.STATES.values(), "told"}
    assert set(diagnosis._SEND) | set(diagnosis._RECEIVE) | set(diagnosis._SCHEDULE) == states


class World:
    """As much of an engine as the words need: ranks 4 and 2 are a communicator of their own."""

    groups = {8: (4, 2), 9: (4, 2), 10: (4, 2)}


@pytest.mark.parametrize(("change", "words"), [
    ({}, "Recv(source=2, tag=7)"),
    ({"waits": False}, "Irecv(source=2, tag=7)"),
    ({"object": True, "waits": False}, "irecv(source=2, tag=7)"),
    ({"side": "match"}, "recv(source=2, tag=7)"),
    ({"peer": -1, "tag": -1}, "Recv(source=ANY_SOURCE, tag=ANY_TAG)"),
    ({"state": "reading"}, "Recv(source=2, tag=7, 80 bytes)"),
    ({"context": 8}, "Recv(source=1, tag=7, communicator 2)"),
    ({"side": "send"}, "Send(dest=2, tag=7, 80 bytes)"),
    ({"side": "send", "sync": True, "waits": False}, "Issend(dest=2, tag=7, 80 bytes)"),
    ({"side": "send", "object": True, "sync": True}, "ssend(dest=2, tag=7, 80 bytes)"),
    ({"context": 1, "tag": 3}, "Barrier (call 3): receive from 2"),
    ({"context": 9, "tag": (1 << 24) + 5, "side": "send"},
     "Bcast (call 5, communicator 2): send to 1, 80 bytes"),
    ({"context": 2}, "part of an object: receive from 2"),
])
def test_operations_are_named_like_calls(change, words):
    operation = traced.Operation(
        side="receive", state="posted", peer=2, context=0, tag=7, nbytes=80, protocol=None,
        reason=None, age=1.0, line="", sync=False, waits=True, object=False)
    assert diagnosis.call_of(World, operation._replace(**change)) == words


def test_long_lists_are_cut():
    """A rank with thousands of receives says the oldest."""
    from tests.engine.pair import Pair

    two = Pair()
    receives = [two.ends[1].receive(0, tag, bytearray(8)) for tag in range(100)]
    lines = list(diagnosis.pending(two.engines[1]))
    assert len(lines) == diagnosis.OPERATIONS + 1
    assert "tag=0," in lines[0] and lines[-1] == "and 84 other operations under way"
    assert len(receives) == 100
    two.close()
