"""Finalize while other threads wait: each of them ends with FinalizedError, none as if complete."""

import pytest

PROGRAM = """
import asyncio
import sys
import threading

import numpy as np

from pyrdv import MPI
from pyrdv.errors import FinalizedError

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
other = (rank + 1) % size
room = np.zeros(int(sys.argv[1]))
own = MPI.COMM_SELF
dup = comm.Dup()
if rank:
    # They stay until the first one has left.
    try:
        comm.recv(None, 0, 60)
    except MPI.Exception as error:
        sys.exit(error.Get_error_class() != MPI.ERR_PROC_FAILED)
kept = comm.Irecv(np.zeros(3), other, 50)
kept_object = comm.irecv(None, other, 50)


async def awaits(request):
    await request


def collective():
    # The others never call it, unless there are none.
    dup.Barrier() if size > 1 else comm.recv(None, other, 5)


waits = {
    "Recv": lambda: comm.Recv(room.copy(), other, 1),
    "Recv from any": lambda: comm.Recv(room.copy(), MPI.ANY_SOURCE, 1),
    "recv": lambda: comm.recv(None, other, 2),
    "recv from any": lambda: comm.recv(),
    "Wait": lambda: comm.Irecv(room.copy(), other, 3).Wait(),
    "wait": lambda: comm.irecv(None, other, 3).wait(),
    "Waitall": lambda: MPI.Request.Waitall([MPI.REQUEST_NULL, comm.Irecv(room.copy(), other, 3)]),
    "Waitany": lambda: MPI.Request.Waitany([comm.Irecv(room.copy(), other, 4), comm.irecv()]),
    "Waitsome": lambda: MPI.Request.Waitsome([comm.Irecv(room.copy(), other, 4)]),
    "Probe": lambda: comm.Probe(other, 6),
    "mprobe": lambda: comm.mprobe(tag=7),
    "Send to itself": lambda: own.Send(np.zeros(100_000), 0, 8),
    "Ssend to itself": lambda: own.Ssend(b"1", 0, 8),
    "await": lambda: asyncio.run(awaits(comm.irecv(None, other, 9))),
    "await Irecv": lambda: asyncio.run(awaits(comm.Irecv(room.copy(), other, 9))),
    "await of a send": lambda: asyncio.run(awaits(own.Isend(np.zeros(100_000), 0, 9))),
    "persistent": lambda: started(comm.Recv_init(room.copy(), other, 10)).Wait(),
    "generalized": lambda: MPI.Grequest.Start().Wait(),
    "collective": collective,
}


def started(request):
    request.Start()
    return request


ended = {}


def work(name):
    begun.release()
    try:
        ended[name] = waits[name]()
    except BaseException as error:
        ended[name] = error


begun = threading.Semaphore(0)
threads = {name: threading.Thread(target=work, args=(name,), daemon=True) for name in waits}
for thread in threads.values():
    thread.start()
    begun.acquire()
# Those who sleep already and those who do not begin to wait before it is over.
if len(sys.argv) > 2:
    path = f"/proc/self/task/{threads['collective'].native_id}/stat"
    while open(path).read().split()[2] != "S":
        pass
MPI.Finalize()
for name, thread in threads.items():
    thread.join(20)
    if thread.is_alive():
        print(f"{name} still waits", flush=True)
    elif not isinstance(ended[name], FinalizedError):
        print(f"{name} ended with {ended[name]!r}", flush=True)
for request in (kept, kept_object):
    try:
        print(request.Wait(), "is no error")
    except FinalizedError as error:
        assert "Finalize()" in str(error), error
    assert request == MPI.REQUEST_NULL
try:
    comm.Send(b"", other)
except FinalizedError:
    print("over")
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("args", [(1,), (200_000,), (1, "asleep")])
def test_waits_end(jobs, ranks, args):
    """Small rooms, and large ones that were offered to their sender."""
    outcome = jobs.run(PROGRAM, ranks, args=[str(word) for word in args])
    assert outcome.status == 0, outcome
    assert outcome.lines == ["over"], outcome
    # Of the sends to itself it says that nobody received them, and nothing else.
    assert all("was never received" in line for line in outcome.err.splitlines()), outcome


SERVING = """
import sys, threading, time
from pyrdv import MPI, errors

comm, sources = MPI.COMM_WORLD, sys.argv[1]
other = 1 - comm.rank

def serve():
    while True:
        if sources == "any":
            comm.recv()
        elif sources == "one":
            comm.recv(source=other)
        else:
            comm.mprobe().recv()

served = threading.Thread(target=serve, daemon=True)
served.start()
comm.send(1, dest=other)
comm.Barrier()
if comm.rank == 1:
    time.sleep(float(sys.argv[2]))      # rank 0 has ended
if sys.argv[3:]:
    MPI.Finalize()
"""


@pytest.mark.parametrize("finalize", [(), ("Finalize",)])
@pytest.mark.parametrize("seconds", ["0", "0.3"])
@pytest.mark.parametrize("sources", ["any", "one", "probed"])
def test_daemon_threads_end_quietly(jobs, sources, seconds, finalize):
    """A thread that serves requests until the program ends leaves no traceback.

    So does one whose only peer ended a moment before.
    """
    jobs.run(SERVING, 2, args=[sources, seconds, *finalize]).ok()


@pytest.mark.parametrize("sources", ["any", "one", "probed"])
def test_daemon_threads_of_a_rank_that_goes_on(jobs, sources):
    """The program goes on without the thread: it may wait for what the thread does."""
    outcome = jobs.run(SERVING, 2, args=[sources, "3"])
    assert outcome.status == 0 and outcome.err.count("PeerLostError: ") == 1, outcome


def test_finished_or_lost(jobs):
    """`PeerLostError.finished` tells whether a peer, or all, ended in good order."""
    outcome = jobs.run("""
        import os, sys
        from pyrdv import MPI, errors

        comm = MPI.COMM_WORLD
        comm.Barrier()
        if comm.rank == 1:
            os._exit(0)
        if comm.rank == 2:
            sys.exit()
        for source in (1, 2, MPI.ANY_SOURCE):
            try:
                comm.recv(source=source)
            except errors.PeerLostError as error:
                print(source, error.peer, error.finished, error.reason)
        """, 3, "--keep-going")
    any_source, lost, finished = outcome.lines      # they are sorted
    assert any_source == "-2 -2 False all other ranks have ended, not all of them in good order"
    assert lost.startswith("1 1 False "), outcome
    assert finished == "2 2 True it has finished", outcome
