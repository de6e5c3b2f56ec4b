"""Requests shared by threads, and requests that are awaited, between two ranks."""

import asyncio
import random
import threading
import time

import numpy as np

from pyrdv import MPI
from pyrdv.errors import TruncationError
from tests.support.cases import cpu_seconds, raises, run


def case_threads_share_a_request(comm):
    """T02: of four threads that test one request, exactly one gets the object; also with a wait."""
    other = 1 - comm.rank
    for turn in range(150):
        size = (3, 200_000)[turn % 2]
        if comm.rank == 1:
            time.sleep(0.0005)
            comm.send({"turn": turn, "data": b"x" * size}, 0, turn)
            continue
        request = comm.irecv(None, other, turn)
        got, failures = [], []
        begin = threading.Barrier(4)

        def work(number, turn=turn, request=request, got=got, failures=failures, begin=begin):
            try:
                begin.wait()
                if number == 0 and turn % 3 == 0:
                    got.append(request.wait())
                    return
                while True:
                    done, obj = request.test()
                    if done:
                        got.append(obj)
                        return
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not failures
        real = [obj for obj in got if obj is not None]
        assert len(got) == 4 and len(real) == 1 and real[0]["turn"] == turn, got
        assert not request


def case_threads_exchange(comm):
    """Six threads on each rank exchange messages of all sizes under tags of their own."""
    other = 1 - comm.rank
    failures = []

    def work(number):
        try:
            draw = random.Random(number)
            for turn in range(60):
                size = draw.choice((0, 9, 3000, 70_000, 300_000))
                receive = comm.irecv(None, other, number)
                comm.send((turn, b"d" * size), other, number)
                assert receive.wait() == (turn, b"d" * size)
                room = np.empty(size, np.uint8)
                request = comm.Irecv(room, other, number)
                comm.Send(np.full(size, turn, np.uint8), other, number)
                request.Wait()
                assert (room == turn).all()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures


def case_cancelled_awaits_lose_nothing(comm):
    """T03, shrunk to 600 messages: waits of 1 ms that run out lose and reorder nothing."""
    count = 600
    if comm.rank == 1:
        draw = random.Random(4)
        for number in range(count):
            time.sleep(draw.random() * 0.003)
            size = draw.choice((0, 0, 100, 5000, 100_000))
            if number % 2:
                comm.send((number, b"x" * size), 0)
            else:
                comm.send((number, np.ones(size)), 0)
        return

    async def main():
        expired = 0
        for number in range(count):
            while True:
                try:
                    async def one():
                        return await comm.irecv(None, 1)
                    got = await asyncio.wait_for(one(), 0.001)
                    break
                except TimeoutError:
                    expired += 1
            assert got[0] == number, (got[0], number)
        return expired

    assert asyncio.run(main()) > 10
    assert not comm.Iprobe()


def case_cancelled_receive_is_withdrawn(comm):
    """T03: after the cancellation of an await its message goes to the next receive."""
    async def main():
        room = np.zeros(4)
        request = comm.Irecv(room, 1, 5)

        async def one():
            await request

        task = asyncio.create_task(one())
        await asyncio.sleep(0.05)
        task.cancel()
        with raises(asyncio.CancelledError):
            await task
        assert not request
        return room

    if comm.rank == 0:
        room = asyncio.run(main())
        comm.Barrier()
        other = np.zeros(4)
        comm.Recv(other, 1, 5)
        assert (other == 3).all() and not room.any()
    else:
        comm.Barrier()
        comm.Send(np.full(4, 3.0), 0, 5)


def case_one_of_several_awaits_is_cancelled(comm):
    """The request is left to the others, who get its message; the last one withdraws it."""
    other = 1 - comm.rank
    other_loop = []

    async def one(request):
        return await request

    async def main(kind):
        room = np.zeros(10)
        request = comm.Irecv(room, other, 5) if kind == "Irecv" else comm.irecv(None, other, 5)
        thread = threading.Thread(target=lambda: other_loop.append(asyncio.run(one(request))))
        first, second, third = (asyncio.create_task(one(request)) for _ in range(3))
        if kind == "another loop":
            thread.start()
        await asyncio.sleep(0.05)
        first.cancel()
        with raises(asyncio.CancelledError):
            await asyncio.wait_for(first, 30)
        if kind == "another loop":
            for task in (second, third):
                task.cancel()
                with raises(asyncio.CancelledError):
                    await task
        assert request
        await asyncio.to_thread(comm.Barrier)
        if kind == "Irecv":
            await asyncio.gather(second, third)
            assert (room == 3).all()
        elif kind == "irecv":
            assert sorted(await asyncio.gather(second, third), key=str) == [None, "message"]
        elif kind == "another loop":
            await asyncio.to_thread(thread.join, 30)
            assert other_loop == ["message"]
        else:
            for task in (second, third):
                task.cancel()
            ends = await asyncio.gather(second, third, return_exceptions=True)
            assert [type(end) for end in ends] == [asyncio.CancelledError] * 2
        assert not request

    for kind in ("Irecv", "irecv", "another loop", "all are cancelled"):
        if comm.rank == 0:
            asyncio.run(main(kind))
        else:
            comm.Barrier()
            if kind == "Irecv":
                comm.Send(np.full(10, 3.0), other, 5)
            elif kind != "all are cancelled":
                comm.send("message", other, 5)
    comm.Barrier()
    assert not comm.Iprobe()


def case_awaits_of_all_kinds(comm):
    """`await` gives what wait() gives, for sends, receives and objects; errors are raised."""
    other = 1 - comm.rank

    async def main():
        room = np.zeros(1000)
        receive = comm.Irecv(room, other, 1)
        send = comm.Isend(np.full(1000, comm.rank, float), other, 1)
        assert await receive is True or (room == other).all()
        await send
        assert (room == other).all()
        reception = comm.irecv(None, other, 2)
        sending = comm.issend({"array": np.arange(100_000)}, other, 2)
        got, nothing = await asyncio.gather(one(reception), one(sending))
        assert got["array"].sum() == sum(range(100_000)) and nothing is None
        send = comm.Isend(np.ones(20), other, 3)
        with raises(TruncationError, "160 bytes"):
            await comm.Irecv(np.ones(10), other, 3)
        await send
        # Complete already, and null.
        await send
        await MPI.REQUEST_NULL

    async def one(request):
        return await request

    asyncio.run(main())


def case_many_awaits_at_once(comm):
    """asyncio.gather of 400 receives and 400 sends of all sizes, in any order of tags."""
    other = 1 - comm.rank
    sizes = [(0, 10, 5000, 100_000)[tag % 4] for tag in range(400)]

    async def receive(tag):
        obj = await comm.irecv(None, other, tag)
        assert obj == (tag, b"m" * sizes[tag])
        return tag

    async def send(tag):
        await comm.isend((tag, b"m" * sizes[tag]), other, tag)

    async def main():
        tags = list(range(400))
        random.Random(comm.rank).shuffle(tags)
        done = await asyncio.gather(*[receive(tag) for tag in tags],
                                    *[send(tag) for tag in reversed(tags)])
        assert done[:400] == tags

    for _ in range(2):
        asyncio.run(main())


def case_idle_loop_costs_nothing(comm):
    """P09, T07: an awaiting loop that gets nothing is not woken; others' timers go on."""
    other = 1 - comm.rank

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.02)
                ticks += 1

        ticker = asyncio.create_task(tick())
        used, began = cpu_seconds(), time.monotonic()
        got = await comm.irecv(None, other)
        used, lasted = cpu_seconds() - used, time.monotonic() - began
        ticker.cancel()
        assert got == "late" and lasted > 1.0
        assert used < 0.3 and ticks > 15, (used, ticks)

    if comm.rank == 0:
        asyncio.run(main())
    else:
        time.sleep(1.3)
        comm.send("late", 0)


def case_wake_ups_of_the_loop(comm):
    """P09, shrunk to 400: messages of all sizes at random times reach an idle loop at once."""
    sizes = (0, 8, 4000, 70_000, 500_000)
    draw = random.Random(8)

    async def main():
        for number in range(400):
            began = time.monotonic()
            data = await comm.irecv(None, 1)
            assert len(data) == sizes[number % 5]
            await comm.isend(number, 1)
            assert time.monotonic() - began < 5

    if comm.rank == 0:
        asyncio.run(main())
    else:
        for number in range(400):
            time.sleep(draw.random() * 0.005)
            comm.send(b"z" * sizes[number % 5], 0)
            assert comm.recv(None, 0) == number


def case_await_in_a_thread(comm):
    """A loop in another thread, while the main thread blocks in calls of its own."""
    other = 1 - comm.rank
    failures = []

    async def main():
        for number in range(100):
            send = comm.isend(("loop", number), other, 1)
            assert await comm.irecv(None, other, 1) == ("loop", number)
            await send

    def work():
        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    for number in range(100):
        assert comm.sendrecv(("main", number), other, 2, None, other, 2) == ("main", number)
    thread.join(30)
    assert not thread.is_alive() and not failures


run(globals(), pairs=True)
