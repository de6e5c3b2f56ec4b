"""How jobs and ranks end (field cases L02, L03, L06 to L08, P08, R10, R11, M14, X02)."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.support.jobs import case_names, wait_until

SILENT = Path(__file__).parent / "programs" / "silent.py"
HEAD = """
import os, signal, sys, threading, time
import numpy as np
from pyrdv import MPI
from pyrdv.errors import PeerLostError
comm = MPI.COMM_WORLD
other = 1 - comm.rank
"""


def test_abort_is_not_held_by_a_thread(jobs):
    """L02: rank 1 has a non-daemon thread in recv; main raises: the job ends."""
    outcome = jobs.run(HEAD + """
if comm.rank == 1:
    threading.Thread(target=lambda: comm.recv(None, 0, 5)).start()
    time.sleep(0.2)
    raise ValueError("main ends here")
comm.recv(None, 1)
""", 2, limit=30)
    assert outcome.status == 1 and "main ends here" in outcome.err, outcome


@pytest.mark.parametrize(("code", "status"), [
    ("if comm.rank: comm.Abort(3)\ncomm.recv(None, 1)", 3),
    ("if comm.rank: comm.Abort()\ncomm.recv(None, 1)", 1),
    ("if comm.rank: comm.Abort(0)\ncomm.recv(None, 1)", 1),
    ("sys.exit(2)", 2),
    ("if comm.rank: sys.exit(0)\ntime.sleep(0.5); print('on'); MPI.COMM_SELF.Barrier()", 0),
])
def test_exit_status(jobs, code, status):
    """L03: Abort(3), Abort(), sys.exit(2) on all ranks, exit 0 early on one."""
    outcome = jobs.run(HEAD + code, 2, limit=30)
    assert outcome.status == status, outcome
    if status == 0:
        assert outcome.out == "on\n"


def test_cleaning_up_late(jobs):
    """L06: atexit handlers that send, free and finalize twice; requests dropped in __del__."""
    outcome = jobs.run(HEAD + """
import atexit
dup = comm.Dup()
class Late:
    def __init__(self):
        self.request = comm.irecv(None, other, 9)
        self.comm = dup
    def __del__(self):
        self.request.Cancel()
        try:
            self.comm.Isend(b"late", other)
        except MPI.Exception:
            pass
def last():
    assert comm.sendrecv(comm.rank, other, 1, None, other, 1) == other
    dup.Free()
    MPI.Finalize()
    MPI.Finalize()
    try:
        comm.send(1, other)
    except MPI.Exception as error:
        assert "Finalize" in str(error)
    print("ended")
atexit.register(last)
late = Late()
""", 2)
    assert outcome.ok().out == "ended\n" * 2


def test_leftovers_at_the_end(jobs):
    """L07: pending receives, unread messages and an unmatched 4 MB send: one line, no hang."""
    began = time.monotonic()
    outcome = jobs.run(HEAD + """
if comm.rank == 1:
    kept = [comm.Irecv(np.empty(4), 0, 50 + n) for n in range(2)] + [comm.irecv(None, 0, 60)]
    comm.Barrier()
else:
    for _ in range(10): comm.send("unread", 1, 3)
    kept = comm.Isend(np.ones(1 << 19), 1, 4)
    comm.Barrier()
""", 2)
    assert time.monotonic() - began < 30
    assert outcome.status == 0 and outcome.out == "", outcome
    line, = outcome.err.splitlines()
    assert "rank 0" in line and "4194304 bytes" in line and "tag 4" in line and "rank 1" in line


WAYS = {"return": 0, "sys.exit(3)": 3, "raise KeyError('x')": 1, "os._exit(4)": 4}


@pytest.mark.parametrize("way", WAYS)
def test_end_in_the_middle_of_traffic(jobs, way):
    """L08, shrunk to 5 rounds of 4 ways: ranks end while 1000 messages are in flight."""
    for _ in range(5):
        outcome = jobs.run(HEAD + f"""
def main():
    comm.Barrier()
    kept = [comm.Isend(np.full(n % 9 * 100, 1.0), other) for n in range(900)]
    kept += [comm.isend({{"n": n, "big": np.ones(20_000)}}, other) for n in range(100)]
    kept += [comm.irecv(None, other) for n in range(500)]
    {way}
main()
""", 2, limit=60)
        assert outcome.status == WAYS[way], outcome
        assert "Fatal" not in outcome.err and "signal" not in outcome.err, outcome


def test_a_rank_that_ends_early(jobs):
    """P08: rank 0 receives 10 times, rank 1 sends 9 and ends: an error names it."""
    outcome = jobs.run(HEAD + """
if comm.rank == 1:
    for number in range(9): comm.send(number, 0)
else:
    for number in range(9): assert comm.recv(None, 1) == number
    for call in (lambda: comm.recv(None, 1), lambda: comm.Recv(np.empty(1), 1),
                 lambda: comm.Probe(1), lambda: comm.recv(), lambda: comm.Probe(),
                 lambda: comm.irecv(None, 1).wait(), lambda: comm.Barrier(),
                 lambda: comm.send(b"x" * 1_000_000, 1)):
        began = time.monotonic()
        try: call()
        except PeerLostError as error: assert "finished" in str(error), error
        else: raise AssertionError("no error")
        assert time.monotonic() - began < 5
    print("told")
""", 2)
    assert outcome.ok().out == "told\n"


@pytest.mark.parametrize("case", case_names(SILENT))
def test_a_rank_that_has_only_received(jobs, case):
    """It ends in good order, although it never had a reason to connect to anybody."""
    outcome = jobs.run([sys.executable, str(SILENT), case], 3, limit=60)
    assert outcome.ok().out == "", outcome


def test_dropped_requests_arrive(jobs):
    """R10: 50 isends and Isends whose requests are dropped arrive unchanged, then a normal end."""
    outcome = jobs.run(HEAD + """
if comm.rank == 1:
    for number in range(50):
        comm.isend({"n": number, "big": np.full(number * 2000, number)}, 0, 1)
        comm.Isend(np.full(number * 3000, number), 0, 2)
else:
    time.sleep(0.3)
    for number in range(50):
        got = comm.recv(None, 1, 1)
        assert got["n"] == number and (got["big"] == number).all()
        assert len(got["big"]) == number * 2000
        room = np.empty(number * 3000, int)
        comm.Recv(room, 1, 2)
        assert (room == number).all()
    print("all")
""", 2)
    assert outcome.ok().out == "all\n"


@pytest.mark.parametrize("order", ["comm request world", "world request comm",
                                   "request world comm", "request comm world"])
def test_objects_go_in_any_order(jobs, order):
    """R11: communicator, request and world are dropped in every order, with live globals."""
    outcome = jobs.run(HEAD + f"""
import gc
sys.setrecursionlimit(500)
things = {{"comm": comm.Dup(), "request": comm.Irecv(np.empty(5), other, 7), "world": MPI._world}}
things["comm"].irecv(None, other)
comm.Barrier()     # what is dropped must not take the message
more = things["comm"].isend(np.ones(100_000), other)
assert things["comm"].recv(None, other).sum() == 100_000
comm.Barrier()
for name in {order.split()!r}:
    if name == "world":
        MPI.Finalize()
    del things[name]
    gc.collect()
print("ended")
""", 2, env={"PYTHONWARNINGS": "error"})
    assert outcome.ok().out == "ended\n" * 2


def test_exception_while_starting(jobs):
    """R11: what goes wrong at start is one error, and the other rank does not hang."""
    outcome = jobs.run("""
import os
if os.environ["PYRDV_RANK"] == "1":
    os.environ["PYRDV_EAGER_MAX"] = "nonsense"
from pyrdv import MPI
MPI.COMM_WORLD.Barrier()
""", 2, limit=40)
    assert outcome.status == 1 and "PYRDV_EAGER_MAX='nonsense'" in outcome.err, outcome


@pytest.mark.parametrize("nbytes", [1 << 10, 1 << 20, 64 << 20])
def test_both_send_first(jobs, nbytes):
    """M14: small messages pass; large ones wait for ever, as documented: the job can be ended."""
    code = HEAD + f"""
data = np.ones({nbytes}, np.uint8)
print("sends", flush=True)
comm.Send(data, other)
room = np.empty_like(data)
comm.Recv(room, other)
assert (room == 1).all()
print("passed")
"""
    if nbytes == 1 << 10:
        assert jobs.run(code, 2).ok().lines == ["passed"] * 2 + ["sends"] * 2
        return
    outcome = jobs.run(code, 2, "--timeout", "5", limit=60)
    assert outcome.status == 124 and outcome.lines == ["sends"] * 2, outcome


LOSS = HEAD + """
place = {place!r}
if comm.rank == 2:
    if place == "stream":
        while True: comm.Send(np.ones(10), 0)
    if place == "transfer":
        kept = [comm.Isend(np.ones(8 << 20), 0) for _ in range(4)]
        kept[0].Wait()
    open("ready", "w").close()
    time.sleep(60)
elif comm.rank == 0:
    if place == "stream":
        for _ in range(1000): comm.Recv(np.empty(10), 2)
        open("ready", "w").close()
        call = lambda: comm.Recv(np.empty(10), 2)
    elif place == "transfer":
        room = np.empty(8 << 20)
        comm.Recv(room, 2)
        call = lambda: comm.Recv(room, 2)
    else:
        call = lambda: comm.recv(None, 2)
    try:
        while True: call()
    except PeerLostError as error:
        assert error.peer == "2" or error.peer == 2, error.peer
        assert "rank 2" in str(error)
    lost = time.monotonic()
    for call in (lambda: comm.Send(np.ones(1), 2), lambda: comm.send(b"x" * 300_000, 2),
                 lambda: comm.irecv(None, 2).wait(), lambda: comm.Probe(2)):
        try: call()
        except PeerLostError as error: assert "rank 2" in str(error)
        else: raise AssertionError("no error")
    assert time.monotonic() - lost < 5
    # Others go on.
    comm.send(lost, 1)
    assert comm.recv(None, 1) == "still here"
    print("told", lost)
else:
    comm.recv(None, 0)
    comm.send("still here", 0)
"""


@pytest.mark.parametrize("place", ["idle", "stream", "transfer"])
def test_killed_rank(jobs, place):
    """SIGKILL of a rank, idle or in traffic: survivors get errors naming it within 5 s (T04)."""
    process = jobs.start(LOSS.format(place=place), 3, "--grace", "30")
    jobs.wait_file("ready")
    time.sleep(0.1)
    os.kill(jobs.ranks()[2], signal.SIGKILL)
    killed = time.monotonic()
    outcome = jobs.finish(process, 40)
    assert outcome.status == 137 and outcome.out.startswith("told"), outcome
    assert float(outcome.out.split()[1]) - killed < 5
    assert "rank 2" in outcome.err and "SIGKILL" in outcome.err
    assert "Traceback" not in outcome.err
    jobs.check_clean()


def test_all_killed_leaves_nothing(jobs):
    """X02, shrunk to 5 rounds: launcher and ranks killed in traffic; the next start works."""
    code = HEAD + """
open(f"ready{comm.rank}", "w").close()
data = np.ones(300_000)
while True:
    comm.Sendrecv(data, other, 0, np.empty_like(data), other)
"""
    for _ in range(5):
        process = jobs.start(code, 2)
        for rank in range(2):
            jobs.wait_file(f"ready{rank}")
            os.unlink(jobs.folder / f"ready{rank}")
        jobs.kill_all()
        process.wait()
        jobs.check_clean()
    assert jobs.run(HEAD + "print(comm.allreduce(1))", 2).ok().out == "2\n2\n"


def test_stopped_and_continued_in_traffic(jobs):
    """A rank that is stopped for a while delays the others and loses nothing."""
    process = jobs.start(HEAD + """
draw = np.random.default_rng(5)
sizes = [int(n) for n in draw.choice([8, 4000, 60_000, 400_000], 1500)]
for number, size in enumerate(sizes):
    if number == 100: open(f"ready{comm.rank}", "w").close()
    room = np.empty(size, np.uint8)
    comm.Sendrecv(np.full(size, number % 251, np.uint8), other, 0, room, other)
    assert (room == number % 251).all()
    time.sleep(0.0005)
print("all")
""", 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    ranks = jobs.ranks()
    for rank in (0, 1, 0):
        os.kill(ranks[rank], signal.SIGSTOP)
        time.sleep(0.4)
        os.kill(ranks[rank], signal.SIGCONT)
        time.sleep(0.1)
    outcome = jobs.finish(process, 60)
    assert outcome.ok().out == "all\nall\n"
    assert wait_until(lambda: not jobs.processes(), 5)
    jobs.check_clean()


# What rank 0 does again and again while rank 1 is dead; None: it did not need rank 1.
AFTER_DEATH = {
    "send": "comm.send(1, 1, 1)",
    "isend": "comm.isend(1, 1, 1).wait()",
    "dropped isend": "comm.isend(1, 1, 1)",
    "Send": "comm.Send(np.ones(1), 1, 1)",
    "Isend": "comm.Isend(np.ones(1), 1, 1).Test()",
    "Bsend": "comm.Bsend(np.ones(1), 1, 1)",
    "Ssend": "comm.Ssend(np.ones(1), 1, 1)",
    "persistent": "persistent.Start(); persistent.Wait()",
    "duplicate": "twin.send(1, 1, 1)",
    "iprobe": "comm.iprobe(1, 7)",
    "improbe": "comm.improbe(1, 7)",
    "test": "pending.test()",
    "Test": "buffered.Test()",
    "testany": "MPI.Request.testany([pending])",
    "testall": "MPI.Request.Testall([buffered])",
    "sendrecv": "comm.sendrecv(1, 1, 1, None, 1, 7)",
    "beside another": "comm.send(1, 2, 1); comm.recv(None, 2, 1); comm.send(1, 1, 1)",
}


@pytest.mark.parametrize("call", AFTER_DEATH)
def test_every_call_looks_after_the_dead(jobs, call):
    """A rank that only starts, tests or looks gets the error after a few calls, and then at once;
    the other rank goes on."""
    outcome = jobs.run(HEAD + f"""
twin = comm.Dup()
if comm.rank == 1:
    comm.send(os.getpid(), 0, 9)
    while True: comm.recv(source=0, tag=1)
elif comm.rank == 2:
    while comm.recv(source=0, tag=1): comm.send(1, 0, 1)
else:
    pid = comm.recv(source=1, tag=9)
    persistent = comm.Send_init(np.ones(1), 1, 1)
    pending, buffered = comm.irecv(None, 1, 7), comm.Irecv(np.ones(1), 1, 7)
    for _ in range(5): comm.send(1, 1, 1)
    os.kill(pid, signal.SIGKILL)
    while open(f"/proc/{{pid}}/stat").read().rsplit(")", 1)[1].split()[0] != "Z": time.sleep(0.01)
    calls = 0
    try:
        while True:
            time.sleep(0.01)
            {call_lines(AFTER_DEATH[call])}
            calls += 1
            assert calls < 10, "not told"
    except PeerLostError as error:
        assert error.peer == 1, error
    for again in range(3):
        try: comm.send(1, 1, 1)
        except PeerLostError: pass
        else: raise AssertionError("accepted")
    comm.send(1, 2, 1)
    comm.recv(None, 2, 1)
    comm.send(0, 2, 1)
    print("told")
""", 3, "--grace", "60", limit=60)
    assert outcome.out == "told\n" and "Traceback" not in outcome.err, outcome


def call_lines(code):
    """Statements of one line, each on its own line of the loop above."""
    return code.replace("; ", "\n" + 12 * " ")


@pytest.mark.parametrize("call", ["part.recv(None)", "part.irecv(None).wait()", "part.Probe()",
                                  "MPI.Request.Waitany([part.irecv(None)])",
                                  "MPI.Request.waitall([part.Irecv(np.ones(1))])",
                                  "asyncio.run(awaited(part.irecv(None)))"])
def test_anybody_of_a_communicator_without_others(jobs, call):
    """A wait for anybody ends when the other members have died, though rank 2 lives."""
    outcome = jobs.run(HEAD + f"""
import asyncio
async def awaited(request): return await request
part = comm.Split(comm.rank == 2)
if comm.rank == 1:
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
elif comm.rank == 2:
    comm.recv(None, 0)
else:
    try: {call}
    except PeerLostError as error: print("told")
    comm.send(1, 2)
""", 3, "--grace", "60", limit=60)
    assert outcome.out == "told\n" and "Traceback" not in outcome.err, outcome


def test_anybody_awaited_when_all_have_finished(jobs):
    """An await for anybody ends as a wait does."""
    outcome = jobs.run(HEAD + """
import asyncio
async def awaited(request): return await request
if comm.rank == 0:
    try: asyncio.run(awaited(comm.irecv()))
    except PeerLostError: print("told")
""", 2)
    assert outcome.ok().out == "told\n"


def test_first_contact_with_the_dead(jobs):
    """A rank that was killed before anybody spoke to it: its message arrives, then every call is
    an error, also while the launcher says nothing."""
    process = jobs.start(HEAD + """
if comm.rank == 1:
    comm.send("last words", 0)
    open("here", "w").close()
    time.sleep(60)
while not os.path.exists("killed"): time.sleep(0.01)
for call in (lambda: comm.send(1, 1), lambda: comm.send(1, 1)):
    try: call()
    except PeerLostError as error: assert error.peer == 1, error
    else: raise AssertionError("no error")
assert comm.recv(source=1) == "last words"
for call in (lambda: comm.recv(source=1), lambda: comm.send(b"x" * 100_000, 1),
             lambda: comm.Probe(1), lambda: comm.recv()):
    try: call()
    except PeerLostError as error: pass
    else: raise AssertionError("no error")
open("told", "w").close()
""", 2, "--grace", "60")
    jobs.wait_file("here")
    rank = jobs.ranks()[1]
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(rank, signal.SIGKILL)
    assert wait_until(lambda: ended(rank), 10)
    (jobs.folder / "killed").touch()
    jobs.wait_file("told", 20)
    os.kill(process.pid, signal.SIGCONT)
    outcome = jobs.finish(process, 30)
    assert outcome.status == 137 and "Traceback" not in outcome.err, outcome


def ended(pid):
    """Whether a process has ended, waited for or not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True
