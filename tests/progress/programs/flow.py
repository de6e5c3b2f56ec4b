"""Flow control, outstanding work, waiting and waking between two ranks."""

import gc
import os
import random
import threading
import time

import numpy as np

from pyrdv import MPI
from tests.support.cases import cpu_seconds, resident, run

MIB = 1 << 20


def case_progress_outside_of_calls(comm):
    """P02: rank 0 starts a 4 MB send, then reads a pipe that rank 1 writes after its receive."""
    fifo = f"fifo-{MPI.COMM_WORLD.rank // 2}"
    if comm.rank == 0:
        os.mkfifo(fifo)
        comm.Barrier()
        request = comm.isend(np.ones(500_000), 1)
        began = time.monotonic()
        with open(fifo) as pipe:
            assert pipe.read() == "received"
        assert time.monotonic() - began < 10
        request.wait()
        os.unlink(fifo)
    else:
        comm.Barrier()
        assert comm.recv(None, 0).sum() == 500_000
        with open(fifo, "w") as pipe:
            pipe.write("received")


def case_flood_of_small_messages(comm):
    """P03, shrunk to 300 000 x 8 B and 1.5 s asleep: the receiver is bounded, order is kept."""
    count = 300_000
    if comm.rank == 1:
        data = np.empty(1, np.int64)
        for number in range(count):
            data[0] = number
            comm.Send(data, 0, tag=1)
    else:
        before = resident()
        time.sleep(1.5)
        # Crossing traffic is not held up by the flood.
        comm.Send(np.ones(1), 1, tag=2)
        room = np.empty(1, np.int64)
        for number in range(count):
            comm.Recv(room, 1, 1)
            assert room[0] == number
        assert resident() - before < 300 * MIB
    if comm.rank == 1:
        comm.Recv(np.empty(1), 0, 2)


def case_crossing_floods(comm):
    """P03: both sides flood each other with 20 000 messages before either receives."""
    other = 1 - comm.rank
    sizes = [8, 1000, 5000]
    requests = [comm.Isend(np.full(sizes[n % 3], n % 251, np.uint8), other)
                for n in range(20_000)]
    room = np.empty(5000, np.uint8)
    for n in range(20_000):
        status = MPI.Status()
        comm.Recv(room, other, status=status)
        assert status.Get_count() == sizes[n % 3] and room[0] == n % 251 == room[status.count - 1]
    MPI.Request.Waitall(requests)


def case_many_outstanding(comm):
    """P04, shrunk: 50 000 sends of 100 B and 300 of 1 MB outstanding, one Waitall."""
    other = 1 - comm.rank
    small = np.arange(100, dtype=np.uint8)
    large = np.ones(MIB, np.uint8)
    before = resident()
    sends = [comm.Isend(small, other, 1) for _ in range(50_000)]
    sends += [comm.Isend(large, other, 2) for _ in range(300)]
    assert resident() - before < 120 * MIB
    comm.Barrier()
    rooms = [np.empty(MIB, np.uint8) for _ in range(4)]
    receives = [comm.Irecv(rooms[n % 4], other, 2) for n in range(300)]
    room = np.empty(100, np.uint8)
    for _ in range(50_000):
        comm.Recv(room, other, 1)
        assert room[99] == 99
    MPI.Request.Waitall(receives + sends)
    assert all(room.all() for room in rooms)


def case_many_outstanding_of_many_threads(comm):
    """P04: 8 threads, 2000 messages each, all outstanding at once."""
    other = 1 - comm.rank
    failures = []

    def work(number):
        try:
            data = np.full(100 + 3000 * (number % 2), number, np.uint8)
            sends = [comm.Isend(data, other, number) for _ in range(2000)]
            room = np.empty_like(data)
            for _ in range(2000):
                comm.Recv(room, other, number)
                assert (room == number).all()
            MPI.Request.Waitall(sends)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not failures and not any(thread.is_alive() for thread in threads), failures


def case_receiver_posts_late(comm):
    """P05, shrunk to 4000: the receiver sleeps 1 ms every 100; no message stalls for that.

    The table says that no gap is above 50 ms.  Here it may be, now and then, on a busy machine;
    a stall of the library would come with most of the 40 sleeps.
    """
    room = np.empty(16)
    stalls = []
    for number in range(4000):
        began = time.perf_counter()
        if comm.rank == 0:
            comm.Send(room, 1)
            comm.Recv(room, 1)
        else:
            if number % 100 == 0:
                time.sleep(0.001)
            comm.Recv(room, 0)
            comm.Send(room, 0)
        if time.perf_counter() - began > 0.2:
            stalls.append(time.perf_counter() - began)
    assert len(stalls) < 4, stalls


def case_rare_polls_see_the_message(comm):
    """P06: a poller that sleeps 50 ms between its looks needs at most two."""
    sent = f"sent-{MPI.COMM_WORLD.rank // 2}"
    for size in (8, 5000, 2 * MIB):
        if comm.rank == 1:
            request = comm.Isend(np.zeros(size, np.uint8), 0)
            open(sent, "w").close()
            request.Wait()
            comm.Barrier()
        else:
            while not os.path.exists(sent):
                time.sleep(0.01)
            os.unlink(sent)
            time.sleep(0.2)
            looks = 1
            while not comm.Iprobe():
                time.sleep(0.05)
                looks += 1
            assert looks <= 2, looks
            comm.Recv(np.empty(size, np.uint8), 1)
            comm.Barrier()


def case_no_slow_leak(comm):
    """P07, shrunk to 18 000 round trips of mixed sizes and kinds: memory is flat after warm-up."""
    other = 1 - comm.rank
    arrays = [np.ones(size, np.uint8) for size in (0, 8, 100, 3000, 40_000, 300_000)]
    rooms = [np.empty_like(array) for array in arrays]
    objects = [None, {"a": 1}, [np.ones(10_000)], "x" * 5000]

    def rounds(count):
        for number in range(count):
            kind = number % 10
            if kind < 6:
                request = comm.Irecv(rooms[kind], other)
                comm.Send(arrays[kind], other)
                request.Wait()
            else:
                request = comm.irecv(None, other)
                comm.send(objects[kind - 6], other)
                request.wait()
            if kind == 3:
                comm.Irecv(rooms[0], other, 99).Cancel()
                comm.Iprobe(other, 98)

    rounds(3000)
    gc.collect()
    marks = []
    for _ in range(3):
        rounds(5000)
        gc.collect()
        marks.append(resident())
    assert marks[-1] - marks[0] < 2 * MIB, marks


def case_random_pauses(comm):
    """P09: a receiver that sleeps in recv is woken for each of 600 messages of all sizes.

    The table says 5000; tests/fabrics/test_shm_processes.py does so below the engine.
    """
    draw = random.Random(3)
    sizes = [draw.choice((0, 8, 4000, 70_000, 500_000)) for _ in range(600)]
    room = np.empty(500_000, np.uint8)
    for number, size in enumerate(sizes):
        if comm.rank == 1:
            time.sleep(draw.random() * 0.004)
            comm.Send(room[:size], 0, number)
            comm.Recv(room[:0], 0, number)
        else:
            began = time.monotonic()
            comm.Recv(room, 1, number)
            comm.Send(room[:0], 1, number)
            # A lost wake-up would cost 100 ms or more each; the whole would take a minute.
            assert time.monotonic() - began < 5


def case_first_contact_at_once(comm):
    """P10: 300 fresh communicators, both sides send first in each, from four threads."""
    other = 1 - comm.rank
    for turn in range(75):
        comms = [comm.Dup() for _ in range(4)]
        comm.Barrier()
        failures = []

        def work(where, failures=failures):
            try:
                request = where.isend(where.context_number, other)
                assert where.recv(None, other) == where.context_number
                request.wait()
            except BaseException as error:
                failures.append(error)
                raise

        if turn % 5 == 0:
            threads = [threading.Thread(target=work, args=(where,)) for where in comms]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
        else:
            for where in comms:
                work(where)
        assert not failures
        for where in comms:
            where.Free()
    states = MPI._world.engine.peer_states()
    assert states[MPI.COMM_WORLD.rank ^ 1] == "up"


def case_waiting_costs_nothing(comm):
    """R7, F01: recv, wait, probe, barrier, blocked for 0.7 s each, use next to no CPU time."""
    other = 1 - comm.rank
    waits = [lambda: comm.recv(None, other), lambda: comm.irecv(None, other).wait(),
             lambda: comm.Probe(other), lambda: comm.Barrier(),
             lambda: comm.Recv(np.empty(1), other), lambda: comm.Mprobe(other).recv(),
             lambda: MPI.Request.waitany([comm.irecv(None, other), comm.irecv(None, other, 9)])]
    for number, wait in enumerate(waits):
        comm.Barrier()
        if comm.rank == 0:
            used, began = cpu_seconds(), time.monotonic()
            wait()
            used, lasted = cpu_seconds() - used, time.monotonic() - began
            assert lasted > 0.6 and used < 0.1, (number, lasted, used)
            if number == 2:
                comm.recv(None, other)
        else:
            time.sleep(0.7)
            if number == 3:
                comm.Barrier()
            elif number == 4:
                comm.Send(np.ones(1), other)
            else:
                comm.send("wake up", other)
    comm.Barrier()
    if comm.rank == 1:
        comm.send(None, 0, 9)
        # A blocked send, too.
        used = cpu_seconds()
        comm.Send(np.ones(MIB), 0, 10)
        assert cpu_seconds() - used < 0.2
    else:
        # The receive for tag 9 was dropped with the list that held it: take the message.
        comm.recv(None, 1, 9)
        time.sleep(0.7)
        comm.Recv(np.empty(MIB), 1, 10)


def case_idle_communicators(comm):
    """T07, shrunk to 1.5 s: a receive pending on each of 100 communicators costs nothing."""
    comms = [comm.Dup() for _ in range(100)]
    other = 1 - comm.rank
    failures = []
    if comm.rank == 0:
        threads = []
        for where in comms[:20]:
            threads.append(threading.Thread(target=lambda w=where: w.recv(None, other)))
            threads[-1].start()
        requests = [where.irecv(None, other) for where in comms[20:]]
        time.sleep(0.3)
        used = cpu_seconds()
        time.sleep(1.5)
        used = cpu_seconds() - used
        comm.Barrier()
        began = time.monotonic()
        MPI.Request.waitall(requests)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert used < 0.3 and time.monotonic() - began < 20, used
    else:
        comm.Barrier()
        for where in comms:
            where.send(None, other)
    assert not failures
    for where in comms:
        where.Free()


def case_posted_object_receives_go_on(comm):
    """P02: both post irecv, then wait for sends of large objects, without a look at irecv."""
    other = 1 - comm.rank
    objects = ([np.ones(20_000)], "x" * 500_000, {"a": np.zeros(100), "b": bytes(100_000)})
    waits = (lambda request: request.wait(), lambda request: MPI.Request.waitany([request]),
             lambda request: [time.sleep(0) for _ in iter(request.Test, True)])
    for obj in objects:
        for wait in waits:
            receive = comm.irecv(None, other)
            wait(comm.isend(obj, other))
            assert type(receive.wait()) is type(obj)
    many = [comm.irecv(None, other, tag) for tag in range(300)]
    for tag in reversed(range(300)):
        comm.send(("tagged", tag, np.full(10_000, tag)), other, tag)
    for tag, request in enumerate(many):
        assert request.wait()[1] == tag
    assert not MPI._world.engine.pending


def case_pickled_once_sent_often(comm):
    """F06: an object that is pickled already can be sent again and again."""
    from pyrdv.api import objects
    from pyrdv.api.object_messages import isend_pickled

    other = 1 - comm.rank
    if comm.rank == 1:
        head, parts = objects.dumps({"a": np.arange(50_000), "b": "rest"})
        requests = [isend_pickled(comm, head, parts, 0) for _ in range(5)]
        MPI.Request.Waitall(requests)
        assert comm.recv(None, 0) == "small"
    else:
        for _ in range(5):
            got = comm.recv(None, other)
            assert got["b"] == "rest" and (got["a"] == np.arange(50_000)).all()
        isend_pickled(comm, *objects.dumps("small"), other).wait()


run(globals(), pairs=True)
