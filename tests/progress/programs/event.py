"""A message's own descriptor signals the thread that computes; no timer asks (E1-E6)."""

import os
import resource
import signal
import time

import numpy as np

from pyrdv import MPI
from tests.progress.programs.parasite import (
    SIZE,
    another_mode,
    flow,
    nap,
    pipes,
    spin,
    taken,
    tell,
    told,
)
from tests.support.cases import run


def rest(comm):
    """Until the flow of this thread has come to rest."""
    end = time.monotonic() + 30
    while flow(comm)["armed"]:
        time.sleep(0.01)
        assert time.monotonic() < end


def receiver_first(comm, between=lambda: None, wait=spin):
    """As in parasite.py; `between` is called by the receiver when it has posted."""
    pipes(comm)
    if comm.rank == 1:
        room = np.zeros(SIZE, np.uint8)
        request = comm.Irecv(room, MPI.ANY_SOURCE, 7)
        between()
        tell("posted")
        wait(room)
        assert (room == 5).all()
        tell("there")
    else:
        told("posted")
        request = comm.Isend(np.full(SIZE, 5, np.uint8), 1, 7)
        told("there")
    request.Wait()
    comm.Barrier()


def case_nothing_comes_and_nothing_happens(comm):
    def between():
        rest(comm)
        before = flow(comm)["signals"]
        assert flow(comm)["trigger"] == "event" and flow(comm)["owner"]
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            np.sort(np.arange(20_000)[::-1])
        assert flow(comm)["signals"] == before

    receiver_first(comm, between)
    if comm.rank == 1:
        assert not flow(comm)["owner"] and not flow(comm)["armed"]


def case_what_comes_late_is_noticed(comm):
    """The timer has given up long before; a descriptor does not."""
    with another_mode(comm, trigger="event", turn_limit=1):
        receiver_first(comm, lambda: time.sleep(0.3))


def case_a_wait_in_between(comm):
    """A wait sleeps on the same descriptors, takes what they tell, and arms anew at its end."""
    pipes(comm)
    if comm.rank == 1:
        room = np.zeros(SIZE, np.uint8)
        request = comm.Irecv(room, MPI.ANY_SOURCE, 7)
        for number in range(20):
            assert comm.recv(source=0, tag=1) == number
            comm.send(number, 0, tag=2)
        tell("posted")
        spin(room)
        tell("there")
    else:
        for number in range(20):
            if number % 5 == 0:
                time.sleep(0.02)    # so that the other one sleeps
            comm.send(number, 1, tag=1)
            assert comm.recv(source=1, tag=2) == number
        told("posted")
        request = comm.Isend(np.full(SIZE, 5, np.uint8), 1, 7)
        told("there")
    request.Wait()
    comm.Barrier()


def case_a_full_queue_of_signals_ends_nobody(comm):
    """The kernel sends SIGIO then, whose default action would (parasite.h, Z6)."""
    limits = resource.getrlimit(resource.RLIMIT_SIGPENDING)

    def between():
        assert taken(signal.SIGIO)
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, limits[1]))

    with another_mode(comm, trigger="event"):
        receiver_first(comm, between, nap)
        resource.setrlimit(resource.RLIMIT_SIGPENDING, limits)
    assert not taken(signal.SIGIO)


def case_signals_are_the_parents_alone(comm):
    """A child has the same descriptors, and lives on while they signal its parent."""
    children = []

    def between():
        child = os.fork()
        if child == 0:
            time.sleep(0.5)
            os._exit(7)
        children.append(child)

    receiver_first(comm, between)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


if __name__ == "__main__":
    run(globals())
