"""Interrupts, alarms, faults while waiting (field cases L04, G02, G04, L10)."""

import os
import signal
import time

import pytest

WAITS = """
import os, signal, sys, time
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
comm.Barrier()

def pending():
    return [comm.Irecv(np.empty(1), other, 90 + n) for n in range(3)]

waits = {
    "recv": lambda: comm.recv(None, other, 5),
    "Recv": lambda: comm.Recv(np.empty(9), other, 5),
    "wait": lambda: comm.irecv(None, other, 5).wait(),
    "waitall": lambda: MPI.Request.Waitall(pending()),
    "waitany": lambda: MPI.Request.Waitany(pending()),
    "probe": lambda: comm.Probe(other, 5),
    "send": lambda: comm.Send(np.ones(1 << 20), other, 6),
    "barrier": lambda: comm.Barrier() if comm.rank == 0 else time.sleep(30),
    "compute": lambda: sum(i for i in range(10 ** 12)),
}
"""


@pytest.mark.parametrize("place", ["recv", "waitall", "barrier", "send", "compute"])
def test_interrupt(jobs, place):
    """L04: Ctrl-C gives KeyboardInterrupt in each rank, finally-blocks run, status 130."""
    process = jobs.start(WAITS + f"""
try:
    open(f"ready{{comm.rank}}", "w").close()
    waits[{place!r}]()
finally:
    with open(f"done{{comm.rank}}", "w") as file: file.write(str(time.monotonic()))
""", 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    time.sleep(0.3)
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    outcome = jobs.finish(process, 30)
    assert outcome.status == 130, outcome
    assert outcome.err.count("KeyboardInterrupt") >= 2
    for rank in range(2):
        with open(jobs.folder / f"done{rank}") as file:
            # The table says 1 s; this tells a hang from a busy test machine.
            assert float(file.read()) - sent < 5
    jobs.check_clean()


def test_second_interrupt_kills(jobs):
    """L04: a rank that swallows the first one is killed by the second."""
    process = jobs.start(WAITS + """
open(f"ready{comm.rank}", "w").close()
while True:
    try: comm.recv(None, other, 5)
    except KeyboardInterrupt: open(f"swallowed{comm.rank}", "w").close()
""", 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    process.send_signal(signal.SIGINT)
    for rank in range(2):
        jobs.wait_file(f"swallowed{rank}")
    process.send_signal(signal.SIGINT)
    assert jobs.finish(process, 20).status == 130
    jobs.check_clean()


def test_alarm_leaves_every_wait(jobs):
    """G04: a handler that raises leaves the call; afterwards messages arrive as before."""
    outcome = jobs.run(WAITS + """
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
if comm.rank == 0:
    kept = comm.irecv(None, other, 7)
    for name in ("recv", "Recv", "wait", "waitall", "waitany", "probe", "send"):
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try: waits[name]()
        except Alarm: pass
        else: raise AssertionError(name)
        assert time.monotonic() - began < 3, name
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try: kept.wait()
    except Alarm: pass
    comm.send("go", other)
    # The request that a handler interrupted is usable; the withdrawn receives took nothing.
    assert kept.wait() == "kept"
    assert comm.recv(None, other, 5) == "after"
else:
    assert comm.recv(None, other, 0) == "go"
    comm.send("kept", other, 7)
    comm.send("after", other, 5)
    # The send that was interrupted goes on.
    room = np.empty(1 << 20)
    comm.Recv(room, other, 6)
    assert (room == 1).all()
comm.Barrier()
print("ok")
""", 2, limit=60)
    assert outcome.ok().out == "ok\nok\n"


def test_handlers_that_return(jobs):
    """G04: a handler that returns runs during the wait, which then goes on."""
    outcome = jobs.run(WAITS + """
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic()))
if comm.rank == 0:
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    assert comm.recv(None, other, 5) == "late"
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(len(seen) > 3)
else:
    time.sleep(1)
    comm.send("late", other, 5)
""", 2)
    assert outcome.ok().out == "True\n"


def test_faults_keep_their_handler(jobs):
    """G02: with faulthandler on, a fault shows Python's traceback and ends by SIGSEGV."""
    outcome = jobs.run("""
import faulthandler
faulthandler.enable()
from pyrdv import MPI
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 1:
    faulthandler._sigsegv()
MPI.COMM_WORLD.recv(None, 1)
""", 2, "--grace", "0.2", shell="ulimit -c 0")
    assert outcome.status == 139 and "Segmentation fault" in outcome.err, outcome
    assert "prog.py" in outcome.err


def test_lines_stay_whole(jobs):
    """L10, shrunk to 2 x 4000 lines: whole lines, nothing lost before an abort.

    Prefixes and more: tests/launch/test_output.py.
    """
    outcome = jobs.run("""
import sys
from pyrdv import MPI
comm = MPI.COMM_WORLD
for number in range(4000):
    line = f"{comm.rank}:{number}:" + "abcdefghij" * (number * 7919 % 90)
    print(line, flush=number % 3 == 0)
comm.Barrier()
if comm.rank == 0:
    comm.Abort(5)
comm.recv(None, 0)
""", 2)
    assert outcome.status == 5
    lines = {0: [], 1: []}
    for line in outcome.out.splitlines():
        rank, number, rest = line.split(":")
        assert rest == "abcdefghij" * (int(number) * 7919 % 90)
        lines[int(rank)].append(int(number))
    assert lines == {0: list(range(4000)), 1: list(range(4000))}
