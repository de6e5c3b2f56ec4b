"""Event loops that come and go, and awaits that are cancelled too late."""

import asyncio
import gc
import os
import resource
import threading
import time
import weakref

import numpy as np

from pyrdv import MPI
from pyrdv.errors import ResourceError
from tests.support.cases import cpu_seconds, raises, run


async def one(request):
    return await request


def fresh(coroutine, close=True):
    """Run a coroutine in a loop of its own; a weak reference to the loop."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(coroutine)
    if close:
        loop.close()
    return weakref.ref(loop)


def alive(loops):
    gc.collect()
    return sum(loop() is not None for loop in loops)


def case_closed_loops_are_released(comm):
    other = 1 - comm.rank
    before = len(os.listdir("/proc/self/fd"))

    async def main(number):
        send = comm.isend(number, other, 1)
        assert await comm.irecv(None, other, 1) == number
        await send

    loops = [fresh(main(number)) for number in range(100)]
    assert alive(loops) == 0
    assert len(os.listdir("/proc/self/fd")) <= before


def case_loops_that_were_closed_while_something_pends(comm):
    """The wait is gone with its loop; the request is not, and no arming is left behind."""
    other = 1 - comm.rank
    loops, requests = [], []

    async def leave(request):
        task = asyncio.ensure_future(one(request))
        task._log_destroy_pending = False       # it is left pending on purpose
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    for tag in range(20):
        requests.append(comm.irecv(None, other, tag))
        loops.append(fresh(leave(requests[-1])))
    assert alive(loops) == 0
    used, began = cpu_seconds(), time.monotonic()
    if comm.rank:
        comm.recv(None, other, 50)
        assert cpu_seconds() - used < 0.5 * (time.monotonic() - began), "a wait spins"
    else:
        while time.monotonic() - began < 1:
            time.sleep(0.01)
        comm.send(None, other, 50)
    for tag in range(20):
        comm.send(tag, other, tag)

    async def again():
        assert [await request for request in requests] == list(range(20))

    asyncio.run(again())


def waits_asleep(comm, start, finish, awaited):
    """Rank 0 cancels an await that cannot end yet: it sleeps until rank 1 takes part."""
    async def main():
        task = asyncio.create_task(one(start()))
        await asyncio.sleep(0.05)
        used, began = cpu_seconds(), time.monotonic()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        awaited(await task)
        assert not task.cancelling()
        lasted = time.monotonic() - began
        assert lasted > 0.5 and cpu_seconds() - used < 0.05 + 0.2 * lasted, cpu_seconds() - used

    if comm.rank == 0:
        asyncio.run(main())
    else:
        time.sleep(1)
        finish()


def case_cancelled_send_sleeps(comm):
    big, room = np.full(1_000_000, 3.0), np.zeros(1_000_000)

    def finish():
        comm.Recv(room, 0, 1)
        assert (room == 3).all()

    waits_asleep(comm, lambda: comm.Isend(big, 1, 1), finish, lambda value: None)


def case_cancelled_send_of_an_object_sleeps(comm):
    big = np.full(1_000_000, 3.0)

    def finish():
        assert (comm.recv(None, 0, 1) == big).all()

    waits_asleep(comm, lambda: comm.isend(big, 1, 1), finish, lambda value: None)


def case_timed_out_receive_sleeps(comm):
    """Its buffer was offered to rank 1, who lets go of it, or sends into it already."""
    room = np.zeros(1_000_000)

    async def main():
        used, began = cpu_seconds(), time.monotonic()
        try:
            await asyncio.wait_for(one(comm.Irecv(room, 1, 1)), 0.05)
            came = True
        except TimeoutError:
            came = False
        lasted = time.monotonic() - began
        assert cpu_seconds() - used < 0.05 + 0.2 * lasted, (cpu_seconds() - used, lasted)
        return came

    if comm.rank == 0:
        if not asyncio.run(main()):
            comm.Recv(room, 1, 1)
        assert (room == 5).all()
    else:
        time.sleep(1)
        comm.Send(np.full(1_000_000, 5.0), 0, 1)


def sleeps():
    """How often anybody of this process fell asleep, or tried to."""
    return MPI._world.engine.fabrics[0].counters["sleeps"]


def await_in_loop(comm, tag, into, together):
    """Await an object in a loop of this thread, which another rank sends later."""
    together.wait()
    into[tag] = asyncio.run(one(comm.irecv(None, 1 - comm.rank, tag)))


def block_in_call(comm, tag, into, together):
    together.wait()
    into[tag] = comm.recv(None, 1 - comm.rank, tag)


def case_sleepers_let_each_other_sleep(comm):
    """P09, T07: threads in waits and loops that await, all idle, and none wakes another one.

    A wait looks around ten times in a second.  When one wakes the next one, there are thousands.
    """
    ways = (await_in_loop, block_in_call, await_in_loop, block_in_call)
    other = 1 - comm.rank
    if comm.rank == 1:
        for tag in range(4):
            comm.recv(None, other, 50)
            comm.send(tag, other, tag)
        return
    got, together = {}, threading.Barrier(5)
    threads = [threading.Thread(target=way, args=(comm, tag, got, together))
               for tag, way in enumerate(ways)]
    for thread in threads:
        thread.start()
    together.wait()
    for tag, thread in enumerate(threads):
        # Each message wakes all who are left, and they fall asleep again.
        time.sleep(0.2)
        before = sleeps()
        time.sleep(0.8)
        slept = sleeps() - before
        assert slept < 150, (tag, slept)
        comm.send(None, other, 50)
        thread.join(30)
        assert not thread.is_alive() and got[tag] == tag
    assert got == dict(enumerate(range(4)))


def case_a_busy_loop_keeps_nobody_awake(comm):
    """A loop that computes while a wait is armed is called once, and others sleep meanwhile."""
    other = 1 - comm.rank
    if comm.rank == 1:
        comm.recv(None, other, 50)
        for tag in (1, 2):
            comm.send("something", other, tag)
        comm.recv(None, other, 51)
        comm.send("last", other, 3)
        comm.send("late", other, 4)
        return
    busy, done = threading.Event(), threading.Event()

    async def main():
        task = asyncio.ensure_future(one(comm.irecv(None, other, 4)))
        await asyncio.sleep(0.05)
        busy.set()
        done.wait(60)                       # the loop hears nothing
        return await task

    got = []
    thread = threading.Thread(target=lambda: got.append(asyncio.run(main())))
    thread.start()
    assert busy.wait(30)
    comm.send(None, other, 50)
    for tag in (1, 2):                      # the loop is called, and does not answer
        assert comm.recv(None, other, tag) == "something"
    later = threading.Timer(1, comm.send, (None, other, 51))
    later.start()
    before = sleeps()
    assert comm.recv(None, other, 3) == "last"
    assert sleeps() - before < 150, sleeps() - before
    later.join()
    done.set()
    thread.join(30)
    assert got == ["late"]


def case_no_descriptor_to_await_with(comm):
    """It is said, with the limit, and the request can be awaited later."""
    other = 1 - comm.rank

    async def main():
        await comm.Irecv(bytearray(1), MPI.PROC_NULL)
        request = comm.irecv(None, other, 1)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with raises(ResourceError, "eventfd", "RLIMIT_NOFILE is 3"):
                await request
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        comm.Barrier()                      # nothing comes before both were refused
        send = comm.isend("later", other, 1)
        assert await request == "later"
        await send

    asyncio.run(main())


def case_request_of_a_freed_communicator(comm):
    """Its requests go on, and can be awaited."""
    other = 1 - comm.rank
    mine = comm.Dup()
    request = mine.irecv(None, other, 1)
    mine.send("late", other, 1)
    mine.Free()
    assert asyncio.run(one(request)) == "late"


run(globals(), pairs=True)
