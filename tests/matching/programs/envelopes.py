"""Matching between real processes: probes, wildcards, tags, communicators (4 ranks)."""

import random
import threading
import time

import numpy as np

from pyrdv import MPI
from pyrdv.errors import RankError, TagError, TruncationError
from tests.support.cases import raises, resident, run

ANY = (MPI.ANY_SOURCE, MPI.ANY_TAG)


def case_probe_then_exact_receive(comm):
    """M03: as in the table: two senders of 500 messages each, of random sizes."""
    if comm.rank in (1, 2):
        draw = random.Random(comm.rank)
        for number in range(500):
            data = np.full(draw.choice((4, 100, 3000, 40000)), number % 251, np.uint8)
            data[:2] = divmod(number, 256)
            comm.Send(data, 0, tag=number % 7)
    elif comm.rank == 0:
        seen = {1: set(), 2: set()}
        for _ in range(1000):
            status = MPI.Status()
            comm.Probe(*ANY, status)
            room = np.zeros(status.Get_count(), np.uint8)
            got = MPI.Status()
            comm.Recv(room, status.Get_source(), status.Get_tag(), got)
            assert got.Get_count() == status.Get_count()
            number = int(room[0]) * 256 + int(room[1])
            assert number % 7 == status.tag and (room[2:] == number % 251).all()
            seen[status.source].add(number)
        assert all(numbers == set(range(500)) for numbers in seen.values())


def case_two_threads_probe(comm):
    """M04: two threads share the messages of one peer by improbe and recv."""
    count = 2000
    if comm.rank == 1:
        for number in range(count):
            comm.send({"number": number, "data": b"x" * (number % 5000)}, 0)
        for _ in range(2):
            comm.send(None, 0, tag=1)
    elif comm.rank == 0:
        taken = [[], []]
        failures = []

        def work(mine):
            try:
                while True:
                    status = MPI.Status()
                    message = comm.improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
                    if message is None:
                        time.sleep(0)
                        continue
                    assert (status.source, message.recv is not None) == (1, True)
                    obj = message.recv()
                    if status.tag == 1:
                        return
                    assert len(obj["data"]) == obj["number"] % 5000
                    mine.append(obj["number"])
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures, failures
        assert sorted(taken[0] + taken[1]) == list(range(count))
        assert all(mine == sorted(mine) for mine in taken)


def case_first_sight_has_the_final_count(comm):
    """M05: sizes 0 to 64 MiB, compared at the first positive Iprobe."""
    sizes = [0, 1, 60, 4096, 65536, 1 << 20, (8 << 20) + 1, 64 << 20]
    if comm.rank == 1:
        data = np.zeros(max(sizes), np.uint8)
        for size in sizes:
            comm.Send(data[:size], 0, tag=3)
    elif comm.rank == 0:
        room = np.empty(max(sizes), np.uint8)
        for size in sizes:
            status = MPI.Status()
            while not comm.Iprobe(*ANY, status):
                time.sleep(0)
            assert status.Get_count() == size
            comm.Recv([room, size], status.source, status.tag)


def case_bounds_of_tags(comm):
    """M06: tags up to TAG_UB work; beyond, and negative ones, are refused and nothing is sent."""
    bound = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)
    assert bound == 2**31 - 1
    tags = [0, 32767, bound]
    if comm.rank == 1:
        for tag in tags:
            comm.Send(np.full(4, tag), 0, tag)
        before = {name: n for name, n in MPI.counters().items() if name.startswith("sends")}
        for tag in (bound + 1, -5, MPI.ANY_TAG):
            for call in (comm.Send, comm.Isend, comm.send, comm.issend, comm.Bsend):
                with raises(TagError, tag, bound):
                    call(b"abc", 0, tag)
        with raises(TagError, -5):
            comm.Recv(bytearray(3), 0, -5)
        with raises(RankError, 4, "0..3"):
            comm.Send(b"abc", 4)
        assert before == {name: n for name, n in MPI.counters().items()
                          if name.startswith("sends")}
        comm.Barrier()
    elif comm.rank == 0:
        for tag in reversed(tags):
            room = np.empty(4, int)
            comm.Recv(room, 1, tag)
            assert (room == tag).all()
        comm.Barrier()
        assert not comm.Iprobe(*ANY)
    else:
        comm.Barrier()


def case_internal_traffic_is_invisible(comm):
    """M07: a receive for anything, pending through collectives, gets the real message only."""
    room = np.zeros(8)
    pending = comm.Irecv(room, *ANY)
    waiting = comm.irecv(None, *ANY)

    def quiet():
        assert not pending.Get_status() and not waiting.Get_status()
        other = comm.Iprobe(*ANY)
        assert not other

    for turn in range(5):
        comm.Barrier()
        quiet()
        value = np.arange(20000) if comm.rank == turn % 4 else np.zeros(20000, int)
        comm.Bcast(value, turn % 4)
        assert (value == np.arange(20000)).all()
        assert comm.bcast({"turn": turn} if comm.rank == 2 else None, 2) == {"turn": turn}
        quiet()
        total = np.empty(5)
        comm.Allreduce(np.full(5, comm.rank + 1.0), total)
        assert (total == 10).all() and comm.allreduce([comm.rank], MPI.SUM) == [0, 1, 2, 3]
        other = comm.Dup()
        other.Barrier()
        # The other communicator's messages are not for this one either.
        request = other.isend("elsewhere", (comm.rank + 1) % 4)
        assert other.recv() == "elsewhere"
        request.wait()
        other.Free()
        quiet()
    comm.Barrier()
    comm.Send(np.full(8, comm.rank + 0.5), (comm.rank + 1) % 4, tag=77)
    status = MPI.Status()
    pending.Wait(status)
    left = (comm.rank - 1) % 4
    assert (status.source, status.tag, status.Get_count(MPI.DOUBLE)) == (left, 77, 8)
    assert (room == left + 0.5).all()
    comm.send(["object", comm.rank], (comm.rank + 1) % 4, tag=78)
    assert waiting.wait() == ["object", left]


def case_objects_completed_out_of_order(comm):
    """M08: two objects of 1 MB under one tag, waited for in reverse."""
    if comm.rank == 1:
        objects = [{"n": n, "data": np.full(1 << 17, n, float)} for n in range(2)]
        requests = [comm.isend(obj, 0, tag=5) for obj in objects]
        MPI.Request.waitall(requests)
    elif comm.rank == 0:
        first, second = comm.irecv(None, 1, 5), comm.irecv(None, 1, 5)
        late = second.wait()
        early = first.wait()
        assert (early["n"], late["n"]) == (0, 1)
        assert (early["data"] == 0).all() and (late["data"] == 1).all()


def case_text_of_truncation(comm):
    """M12: the text has both true sizes, source and tag, for small and large messages."""
    for size, room in ((500, 104), (5_000_000, 104), (500, 0), (3_000_000, 2_999_999)):
        if comm.rank == 1:
            comm.Send(np.full(size, 7, np.uint8), 0, tag=9)
        elif comm.rank == 0:
            buffer = np.zeros(room + 8, np.uint8)
            with raises(TruncationError, f"{size} bytes", f"{room} bytes", "rank 1", "tag 9"):
                comm.Recv([buffer, room], *ANY)
            assert not buffer[room:].any()
    # What comes next is not disturbed.
    if comm.rank == 1:
        comm.send("next", 0, tag=9)
    elif comm.rank == 0:
        assert comm.recv(None, 1, 9) == "next"


def case_messages_to_self(comm):
    """M13: all kinds of messages to oneself, 0 B to 8 MB, also on COMM_SELF."""
    for where in (comm, MPI.COMM_SELF):
        me = where.rank
        for size in (0, 8, 5000, 1 << 20, 8_000_000):
            data = np.arange(size, dtype=np.uint8)
            room = np.empty_like(data)
            request = where.Isend(data, me, 1)
            assert where.Iprobe(me, 1)
            where.Recv(room, me, 1)
            request.Wait()
            assert (room == data).all()
            receive = where.irecv(None, me, 2)
            where.send({"data": data}, me, 2)
            assert (receive.wait()["data"] == data).all()
            assert where.sendrecv(size, me, 3, None, me, 3) == size
        where.Send(np.ones(1), me)
        where.Recv(np.empty(1), me)
        with raises(MPI.Exception, "8000000", "itself"):
            where.Send(np.ones(1_000_000), me)
        assert not where.Iprobe(me)


def case_any_source_is_fair(comm):
    """M15: three senders of 3000; each appears 30 times in every 300 while it has messages."""
    count = 3000
    comm.Barrier()
    if comm.rank:
        data = np.empty(1, int)
        for number in range(count):
            data[0] = number
            comm.Send(data, 0)
    else:
        room = np.empty(1, int)
        status = MPI.Status()
        sources, following = [], [0] * 4
        for _ in range(3 * count):
            comm.Recv(room, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            assert room[0] == following[status.source]
            following[status.source] += 1
            sources.append(status.source)
            end = time.perf_counter() + 20e-6
            while time.perf_counter() < end:
                pass
        # A sender has no messages pending before it got going (other processes may hold the
        # two processors) and after its last one; in between it must appear.
        begun = max(sources.index(rank) for rank in (1, 2, 3))
        over = min(len(sources) - sources[::-1].index(rank) for rank in (1, 2, 3))
        for at in range(begun, over - 300, 100):
            window = sources[at:at + 300]
            assert all(window.count(rank) >= 30 for rank in (1, 2, 3)), (at, begun, over)


def case_synchronous_object_of_several_parts(comm):
    """M16: issend of three large arrays completes only after the receive has started."""
    if comm.rank == 1:
        arrays = [np.full(100_000 + n, n, float) for n in range(3)]
        request = comm.issend(arrays, 0, tag=4)
        began = time.monotonic()
        comm.send("announced", 0, tag=5)
        request.wait()
        assert time.monotonic() - began > 0.25
    elif comm.rank == 0:
        message = comm.mprobe(1, 4)
        assert comm.recv(None, 1, 5) == "announced"
        time.sleep(0.3)
        got = message.recv()
        assert [(len(a), a[0], a[-1]) for a in got] == [(100_000 + n, n, n) for n in range(3)]


def case_communicators_come_and_go(comm):
    """M17, shrunk tenfold and more: 1500 x Dup + allreduce + Free stay flat, 300 are kept."""
    def rounds(count):
        for _ in range(count):
            other = comm.Dup()
            assert other.allreduce(1) == 4
            other.Free()

    rounds(300)
    before = resident()
    rounds(1200)
    assert resident() - before < 2 << 20
    kept = [comm.Dup() for _ in range(300)]
    assert len({other.context_number for other in kept}) == 300
    for number in (0, 150, 299):
        other = kept[number]
        request = other.isend(number, (comm.rank + 1) % 4)
        assert other.recv() == number
        request.wait()
    for other in kept:
        other.Free()


def case_large_object_without_a_hint(comm):
    """M18: irecv() of a 10 MB dict needs no size."""
    big = {"text": "x" * 1_000_000, "list": list(range(100_000)), "array": np.arange(1_000_000)}
    if comm.rank == 1:
        comm.isend(big, 0).wait()
    elif comm.rank == 0:
        got = comm.irecv().wait()
        assert got["text"] == big["text"] and got["list"] == big["list"]
        assert (got["array"] == big["array"]).all()


def case_phases(comm):
    """M19: phases in communicators of their own never mix; in one, each pair keeps its order."""
    phases = [comm.Dup(), comm.Dup()]
    for rounds in range(20):
        for phase, where in enumerate(phases):
            if comm.rank == 0:
                for _ in range(2 * 5):
                    assert where.recv(None, *ANY)[0] == phase
            elif comm.rank < 3:
                for number in range(5):
                    where.send((phase, rounds, number), 0)
    last = {1: -1, 2: -1}
    if comm.rank == 0:
        for _ in range(400):
            status = MPI.Status()
            number = comm.recv(None, *ANY, status)
            assert number == last[status.source] + 1
            last[status.source] = number
    elif comm.rank < 3:
        for number in range(200):
            comm.send(number, 0)
    for where in phases:
        where.Free()


def case_many_posted_receives(comm):
    """10 000 receives of other envelopes cost the last one nothing noticeable (issue)."""
    if comm.rank == 0:
        rooms = np.zeros(10_000, np.int64)
        requests = [comm.Irecv(rooms[n:n + 1], 1, n) for n in range(10_000)]
        comm.Barrier()
        for n in reversed(range(10_000)):
            if n % 1000 == 0:
                requests[n].Wait()
        MPI.Request.Waitall(requests)
        assert (rooms == np.arange(10_000)).all()
    else:
        comm.Barrier()
        if comm.rank == 1:
            for n in reversed(range(10_000)):
                comm.Send(np.full(1, n), 0, n)


run(globals())
