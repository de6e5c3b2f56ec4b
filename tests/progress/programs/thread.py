"""Both ranks compute, and the data moves: a thread of the library sleeps until something comes."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

from pyrdv import MPI
from pyrdv.progress.thread import Thread
from tests.support.cases import run

SIZE = 1 << 20
LIMIT = 60.0


def told(name):
    """Wait for the other rank outside of the library."""
    with open(name) as pipe:
        assert pipe.read() == "done"
    os.unlink(name)


def tell(name):
    with open(name, "w") as pipe:
        pipe.write("done")


def pipes(comm):
    if comm.rank == 0:
        os.mkfifo("posted")
        os.mkfifo("there")
    comm.Barrier()


def threads():
    """The threads of this process that the library has started: their status."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):     # it has ended
            if (task / "comm").read_text() == "pyrdv\n":
                lines = (task / "status").read_text().splitlines()
                found.append(dict(line.split(":\t", 1) for line in lines if ":\t" in line))
    return found


def gone():
    """Whether the thread is; the system shows one for a moment after others have seen its end."""
    end = time.monotonic() + LIMIT
    while threads() and time.monotonic() < end:
        time.sleep(0.001)
    return threads() == []


def compute(room):
    """A loop that keeps the interpreter's lock most of the time, and makes no call."""
    end = time.monotonic() + LIMIT
    while not room.all():
        sum(range(200_000))
        assert time.monotonic() < end, "the data did not move"


def counted(before):
    """The thread's turn is counted.  Data that the sender has written is there before that turn."""
    end = time.monotonic() + LIMIT
    while MPI.counters()["flow_hits"] == before["flow_hits"]:
        time.sleep(0.001)
        assert time.monotonic() < end, "the data moved, and not by a turn of the thread"


def receiver_first(comm, source, size=SIZE):
    pipes(comm)
    before = MPI.counters()
    if comm.rank == 1:
        room = np.zeros(size, np.uint8)
        request = comm.Irecv(room, source, 7)
        tell("posted")
        compute(room)
        assert (room == 5).all()
        counted(before)
        tell("there")
    else:
        told("posted")
        request = comm.Isend(np.full(size, 5, np.uint8), 1, 7)
        told("there")
    request.Wait()
    comm.Barrier()


def case_receiver_first_computes(comm):
    receiver_first(comm, MPI.ANY_SOURCE)


def case_named_source(comm):
    receiver_first(comm, 0)


def case_a_large_transfer_goes_on_by_chunks(comm):
    receiver_first(comm, MPI.ANY_SOURCE, 32 << 20)


def case_all_signals_are_blocked_in_it(comm):
    (status,) = threads()
    free = {signal.SIGKILL, signal.SIGSTOP, 32, 33}     # nobody can block these
    blocked = int(status["SigBlk"], 16)
    assert {number for number in range(1, 65) if not blocked >> number - 1 & 1} <= free


def case_it_sleeps_while_nothing_comes(comm):
    comm.Barrier()
    time.sleep(0.3)
    before = comm.engine.mode.facts()["wakes"]
    time.sleep(0.5)
    # A loop that does not sleep makes tens of thousands.
    assert comm.engine.mode.facts()["wakes"] - before < 100
    comm.Barrier()


def case_waits_of_other_threads_are_woken(comm):
    """A thread of the program sleeps in a wait while that of the library takes its message."""
    pipes(comm)
    if comm.rank == 1:
        answers = []
        waiter = threading.Thread(
            target=lambda: answers.extend(comm.recv(source=0, tag=1) for _ in range(200)))
        waiter.start()
        tell("posted")
        waiter.join(LIMIT)
        assert answers == list(range(200))
        tell("there")
    else:
        told("posted")
        for number in range(200):
            comm.send(number, 1, tag=1)
            if number % 50 == 0:
                time.sleep(0.05)    # so that both sleep
        told("there")
    comm.Barrier()


def case_small_messages_to_and_fro(comm):
    """Waits and the thread take from the same queues; nothing is lost or doubled."""
    other = 1 - comm.rank
    for number in range(2000):
        if comm.rank:
            assert comm.recv(source=other) == number
            comm.send(number + 1, other)
        else:
            comm.send(number, other)
            assert comm.recv(source=other) == number + 1


def case_many_threads_and_the_thread(comm):
    def work(tag):
        other = 1 - comm.rank
        for number in range(100):
            room = np.empty(20_000, np.int32)
            request = comm.Irecv(room, other, tag)
            comm.Send(np.full(20_000, number + tag, np.int32), other, tag)
            request.Wait()
            assert (room == number + tag).all()
        done.append(tag)

    done = []
    workers = [threading.Thread(target=work, args=(tag,)) for tag in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(LIMIT)
    assert sorted(done) == [0, 1, 2, 3]


def case_children_have_no_thread(comm):
    child = os.fork()
    if child == 0:
        alone = len(os.listdir("/proc/self/task")) == 1
        with contextlib.suppress(BaseException):
            comm.engine.mode.end()      # waits for nobody
            os._exit(0 if alone else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(threads()) == 1
    comm.Barrier()


def case_it_ends_and_begins_again(comm):
    mode = comm.engine.mode
    for _ in range(100):
        mode.end()
        assert gone() and not mode.facts()["running"]
        mode.begin(comm.engine)
        assert len(threads()) == 1
    try:
        Thread(comm.engine).begin(comm.engine)
    except ValueError as error:
        assert "has a mode" in str(error)
    else:
        raise AssertionError("two modes of one engine")
    comm.Barrier()
    receiver_first(comm, MPI.ANY_SOURCE)


if __name__ == "__main__":
    run(globals())
