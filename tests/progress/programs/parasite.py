"""Both ranks compute, and the data moves: a signal borrows the thread that posted the receive.

Ranks tell each other by pipes what is posted; nobody calls the library before the data is there.
"""

import contextlib
import faulthandler
import os
import select
import signal
import socket
import subprocess
import threading
import time

import numpy as np

from pyrdv import MPI
from pyrdv.instruments.engine import Driver
from pyrdv.progress.parasite import Parasite
from pyrdv.world import init
from tests.support.cases import run

SIZE = 1 << 20
LIMIT = 60.0


def told(name):
    """Wait for the other rank outside of the library."""
    with open(name) as pipe:
        assert pipe.read() == "done"
    os.unlink(name)


def told_meanwhile(name):
    """Compute until the other rank has told it."""
    pipe = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    end = time.monotonic() + LIMIT
    said = b""
    while said != b"done":
        np.sort(np.arange(20_000)[::-1])
        with contextlib.suppress(BlockingIOError):      # it has opened it, and not written yet
            said = os.read(pipe, 4)
        assert time.monotonic() < end, "the other rank still waits"
    os.close(pipe)
    os.unlink(name)


def tell(name):
    with open(name, "w") as pipe:
        pipe.write("done")


def pipes(comm):
    if comm.rank == 0:
        os.mkfifo("posted")
        os.mkfifo("there")
    comm.Barrier()


def flow(comm):
    return comm.engine.mode.facts()


def taken(number, kind="SigCgt", pid="self"):
    """Whether a process has an action for signal `number`."""
    with open(f"/proc/{pid}/status") as file:
        mask = next(int(line.split()[1], 16) for line in file if line.startswith(kind))
    return bool(mask >> number - 1 & 1)


def grown(name, before):
    return MPI.counters()[name] - before[name]


def spin(room):
    """Compute until the last byte of the room is there: a C loop at a time, and no call."""
    end = time.monotonic() + LIMIT
    while room[-1] == 0 or not room.all():
        np.sort(np.arange(20_000)[::-1])
        assert time.monotonic() < end, "the data did not move"


def nap(room):
    end = time.monotonic() + LIMIT
    while not room.all():
        time.sleep(0.02)
        assert time.monotonic() < end, "the data did not move"


def receiver_first(comm, wait, source=MPI.ANY_SOURCE, size=SIZE):
    """Rank 1 posts and computes; then rank 0 posts, and computes until the data has moved."""
    pipes(comm)
    before = MPI.counters()
    if comm.rank == 1:
        room = np.zeros(size, np.uint8)
        request = comm.Irecv(room, source, 7)
        tell("posted")
        wait(room)
        assert (room == 5).all()
        assert grown("flow_hits", before) > 0 and grown("flows_spawned", before) == 1
        assert "step by itself" in [event.kind for event in comm.engine.events()]
        tell("there")
    else:
        told("posted")
        request = comm.Isend(np.full(size, 5, np.uint8), 1, 7)
        told("there")
    request.Wait()
    comm.Barrier()


def case_receiver_first_computes(comm):
    receiver_first(comm, spin)


def case_receiver_first_sleeps(comm):
    receiver_first(comm, nap)


def case_without_offers_a_named_source_needs_it(comm):
    if os.environ.get("PYRDV_SPECULATION") == "off":
        receiver_first(comm, spin, 0)


def case_a_large_transfer_goes_on_by_chunks(comm):
    receiver_first(comm, spin, size=64 << 20)


def case_sender_first_needs_none(comm):
    """The announcement is there when the receive is posted: its own call moves the data."""
    if os.environ.get("PYRDV_SINGLE_COPY") == "off":
        return
    pipes(comm)
    before = MPI.counters()
    if comm.rank == 0:
        request = comm.Isend(np.full(SIZE, 5, np.uint8), 1, 7)
        tell("posted")
        told("there")
    else:
        told("posted")
        room = np.zeros(SIZE, np.uint8)
        request = comm.Irecv(room, MPI.ANY_SOURCE, 7)
        nap(room)
        tell("there")
    assert grown("flows_spawned", before) == 0
    request.Wait()
    comm.Barrier()


def case_blocking_calls_and_small_messages_need_none(comm):
    before = MPI.counters()
    room = np.zeros(SIZE, np.uint8)
    small = [comm.Irecv(np.zeros(8, np.uint8), MPI.ANY_SOURCE, tag) for tag in range(20)]
    comm.Barrier()
    for tag in range(20):
        comm.Send(bytes(8), 1 - comm.rank, tag)
    if comm.rank:
        comm.Recv(room, MPI.ANY_SOURCE, 30)
    else:
        comm.Send(room, 1, 30)
    MPI.Request.Waitall(small)
    comm.Barrier()
    assert grown("flows_spawned", before) == 0


def waiting_senders(comm, count, source=MPI.ANY_SOURCE):
    """Rank 0 waits for the end of each send; rank 1 makes no call before all have ended."""
    pipes(comm)
    room = np.full(SIZE >> 3, comm.rank, np.uint8)
    if comm.rank == 1:
        requests = [comm.Irecv(room, source, tag) for tag in range(count)]
        tell("posted")
        told_meanwhile("there")
        assert not room.any()
    else:
        told("posted")
        for tag in range(count):
            comm.Ssend(room, 1, tag)
        requests = []
        tell("there")
    MPI.Request.Waitall(requests)
    comm.Barrier()


def case_a_sender_that_waits_is_let_go(comm):
    """The last step of this side is the one that tells the sender: nothing is left to watch then,
    but that (needing.pyx).  Again and again, for what came late was at times found by luck."""
    for _ in range(20):
        waiting_senders(comm, 1)


def case_many_messages_without_a_call(comm):
    """By events more of them than a socket of a peer holds doorbells: each signals (shm,
    control.pyx, C4).  By timers the share makes them slow where signals are dear."""
    waiting_senders(comm, 600 if flow(comm)["trigger"] == "event" else 40)


def case_one_flow_for_many_operations(comm):
    pipes(comm)
    count = 100
    if comm.rank == 1:
        rooms = [np.zeros(100_000, np.uint8) for _ in range(count)]
        requests = [comm.Irecv(room, MPI.ANY_SOURCE, tag) for tag, room in enumerate(rooms)]
        assert flow(comm)["watched"] == count
        tell("posted")
        for room in rooms:
            nap(room)
        tell("there")
    else:
        told("posted")
        requests = [comm.Isend(np.full(100_000, 1 + tag, np.uint8), 1, tag)
                    for tag in range(count)]
        told("there")
    MPI.Request.Waitall(requests)
    comm.Barrier()
    end = time.monotonic() + LIMIT
    while flow(comm)["armed"] and time.monotonic() < end:
        time.sleep(0.01)
    assert not flow(comm)["armed"] and flow(comm)["watched"] == 0


def case_a_lock_that_is_held_is_tried_ever_more_rarely(comm):
    """A handler that finds a call at work comes again after twice the time, and not as usual 10 000
    times a second; when the lock is free again, it finds the message."""
    world = init()
    own = world.beside(progress="parasite", parasite_trigger="timer", parasite_period=100,
                       parasite_decay=1, parasite_turn_limit=1 << 30, parasite_share=100)
    pipes(own)
    if own.rank == 1:
        room = np.zeros(SIZE, np.uint8)
        request = own.Irecv(room, MPI.ANY_SOURCE, 7)
        while not flow(own)["signals"]:         # they come every 100 us
            np.sort(np.arange(20_000)[::-1])
        before = flow(own)["barred"]
        holder = threading.Thread(target=lambda: Driver(own.engine).hold(500_000))
        holder.start()
        while holder.is_alive():
            np.sort(np.arange(20_000)[::-1])
        assert 4 <= flow(own)["barred"] - before <= 60
        tell("posted")
        spin(room)
        tell("there")
    else:
        told("posted")
        request = own.Isend(np.full(SIZE, 5, np.uint8), 1, 7)
        told("there")
    request.Wait()
    own.Barrier()
    world.leave(own)


def case_waits_of_other_threads_are_woken(comm):
    """One thread sleeps in a wait; the flow of another takes its message, and calls it (S8)."""
    pipes(comm)
    if comm.rank == 1:
        room = np.zeros(SIZE, np.uint8)
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(comm.recv(source=0, tag=1)))
        waiter.start()
        time.sleep(0.3)         # it sleeps, or the test shows nothing
        request = comm.Irecv(room, MPI.ANY_SOURCE, 7)
        tell("posted")
        nap(room)
        waiter.join(LIMIT)
        assert answers == ["woken"]
        tell("there")
    else:
        told("posted")
        comm.send("woken", 1, tag=1)
        request = comm.Isend(np.full(SIZE, 5, np.uint8), 1, 7)
        told("there")
    request.Wait()
    comm.Barrier()


def case_the_thread_that_posts_is_the_one_that_is_borrowed(comm):
    """Two threads of a rank post and compute; one ends before its message comes."""
    pipes(comm)
    if comm.rank == 1:
        rooms = [np.zeros(SIZE, np.uint8) for _ in range(3)]
        requests = []

        def work(which):
            requests.append(comm.Irecv(rooms[which], MPI.ANY_SOURCE, which))
            if which:
                tell("posted")
                nap(rooms[which])

        for which in (0, 1):
            thread = threading.Thread(target=work, args=(which,))
            thread.start()
            if which == 0:
                thread.join()
        thread.join()
        work_of_main = comm.Irecv(rooms[2], MPI.ANY_SOURCE, 2)
        for room in rooms:
            nap(room)
        requests.append(work_of_main)
        tell("there")
    else:
        told("posted")
        requests = [comm.Isend(np.full(SIZE, 5, np.uint8), 1, tag) for tag in range(3)]
        told("there")
    MPI.Request.Waitall(requests)
    comm.Barrier()


class Signals:
    """What a program may do with signals of its own; `check` says that all of it came to pass."""

    def __init__(self, name):
        self.alarms, self.io, self.own = [], [], []
        signal.signal(signal.SIGALRM, lambda number, frame: self.alarms.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        signal.signal(signal.SIGIO, lambda number, frame: self.io.append(number))
        signal.signal(signal.SIGRTMIN + 8, lambda number, frame: self.own.append(number))
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.previous = signal.set_wakeup_fd(self.near.fileno(), warn_on_full_buffer=False)
        self.file = open(name, "w+")    # noqa: SIM115 (closed by `check`)
        faulthandler.enable(self.file)
        faulthandler.dump_traceback_later(0.05, repeat=True, file=self.file)

    def check(self, ours):
        assert ours not in (signal.SIGALRM, signal.SIGIO, signal.SIGRTMIN + 8)
        before = len(self.own), len(self.io)
        os.kill(os.getpid(), signal.SIGRTMIN + 8)
        os.kill(os.getpid(), signal.SIGIO)
        end = time.monotonic() + LIMIT
        while (len(self.own), len(self.io)) != (before[0] + 1, before[1] + 1) \
                or len(self.alarms) < 20 or not self.file.seek(0, os.SEEK_END):
            time.sleep(0.005)
            assert time.monotonic() < end
        assert set(self.far.recv(1 << 20)) == {signal.SIGALRM, signal.SIGIO, signal.SIGRTMIN + 8}
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        faulthandler.disable()
        signal.set_wakeup_fd(self.previous)
        for number in (signal.SIGALRM, signal.SIGIO, signal.SIGRTMIN + 8):
            signal.signal(number, signal.SIG_DFL)
        for one in (self.near, self.far, self.file):
            one.close()


@contextlib.contextmanager
def another_mode(comm, **settings):
    """Another mode than that of the job for a while; it takes its signal anew."""
    usual = comm.engine.mode
    usual.end()
    mode = Parasite(comm.engine, **settings)
    mode.begin(comm.engine)
    yield mode
    mode.end()
    usual.begin(comm.engine)


def case_signals_of_the_program_are_not_disturbed(comm):
    """SIGALRM and setitimer, SIGIO, set_wakeup_fd, faulthandler, and a real-time signal."""
    comm.engine.mode.end()
    signals = Signals(f"trace{comm.rank}")
    comm.engine.mode.begin(comm.engine)
    pipes(comm)
    ours = 0
    if comm.rank == 1:
        room = np.zeros(SIZE, np.uint8)
        request = comm.Irecv(room, MPI.ANY_SOURCE, 7)
        ours = flow(comm)["signal"]
        tell("posted")
        spin(room)
        assert flow(comm)["signals"] > 0 and ours
        tell("there")
    else:
        told("posted")
        request = comm.Isend(np.full(SIZE, 5, np.uint8), 1, 7)
        told("there")
    request.Wait()
    signals.check(ours)
    comm.Barrier()


def case_many_signals_spoil_nothing(comm):
    """At one signal in 10 µs sleeps, files, sockets, children and NumPy come through."""
    pipes(comm)
    with another_mode(comm, decay=1, turn_limit=1 << 30, share=100) as mode:
        if comm.rank == 1:
            room = np.zeros(SIZE, np.uint8)
            request = comm.Irecv(room, MPI.ANY_SOURCE, 7)
            for _ in range(20):
                use_the_system()
            assert mode.facts()["signals"] > 100
            tell("posted")
            nap(room)
            tell("there")
        else:
            told("posted")
            request = comm.Isend(np.full(SIZE, 5, np.uint8), 1, 7)
            told("there")
        request.Wait()
        comm.Barrier()


def use_the_system():
    begin = time.monotonic()
    time.sleep(0.01)
    assert time.monotonic() - begin >= 0.01
    done = subprocess.run(["echo", "x"], capture_output=True, check=True)
    assert done.stdout == b"x\n"
    near, far = socket.socketpair()
    with near, far:
        sender = threading.Thread(target=near.sendall, args=(bytes(1 << 20),))
        sender.start()
        got = 0
        while got < 1 << 20:
            assert select.select([far], [], [], LIMIT)[0]
            got += len(far.recv(1 << 16))
        sender.join()
    with open("file", "wb") as file:
        assert file.write(bytes(1 << 20)) == 1 << 20
    assert os.path.getsize("file") == 1 << 20
    assert (np.ones((100, 100)) @ np.ones((100, 100)) == 100).all()


def case_a_signal_that_the_program_takes_is_left_to_it(comm):
    with another_mode(comm) as mode:
        requests = [comm.Irecv(np.zeros(SIZE, np.uint8), MPI.ANY_SOURCE, 7)]
        number = mode.facts()["signal"]
        end = time.monotonic() + LIMIT
        while mode.facts()["signals"] < 3:
            assert time.monotonic() < end
        own = []
        signal.signal(number, lambda number, frame: own.append(number))
        # The one that the timer was set for may still come.  What is posted now sets none.
        requests += [comm.Irecv(np.zeros(SIZE, np.uint8), MPI.ANY_SOURCE, tag)
                     for tag in range(8, 20)]
        time.sleep(1.5)
        seen = len(own)
        assert seen <= 1
        os.kill(os.getpid(), number)
        while len(own) == seen:
            assert time.monotonic() < end
            time.sleep(0.001)
        mode.end()
        assert taken(number)
        signal.signal(number, signal.SIG_DFL)
    for request in requests:
        request.Cancel()
        request.Wait()
    comm.Barrier()


def case_children_have_no_action_and_the_end_takes_it_back(comm):
    with another_mode(comm) as mode:
        request = comm.Irecv(np.zeros(SIZE, np.uint8), MPI.ANY_SOURCE, 7)
        number = mode.facts()["signal"]
        assert number and taken(number)
        child = os.fork()
        if child == 0:
            os._exit(taken(number) or taken(number, "SigIgn"))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with subprocess.Popen(["sleep", "60"]) as other:
            assert not taken(number, pid=other.pid) and not taken(number, "SigIgn", other.pid)
            other.kill()
        mode.end()
        assert mode.facts()["signal"] == 0
        assert not taken(number) and not taken(number, "SigIgn")
    request.Cancel()
    request.Wait()
    comm.Barrier()


if __name__ == "__main__":
    run(globals())
