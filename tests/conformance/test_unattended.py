"""What calls have posted, steps by themselves end (R1), as signals and schedules make them.

After the last post no call is made: whatever a step leaves to one remains undone.
"""

import random

import numpy as np
import pytest

from pyrdv.instruments.engine import ANY, Driver

from .worlds import PATIENCE, pattern

RANKS = 3
SIZES = (0, 8, 3000, 70_000, 1_500_000)


def connected(world):
    """The drivers of its engines, each pair of which has spoken; calls reserve from now on."""
    for rank in range(world.size):
        for other in range(rank):
            there, back = bytearray(8), bytearray(8)
            world.run(world.comms[rank].Isend(bytes(8), dest=other),
                      world.comms[other].Irecv(there, source=rank))
            world.run(world.comms[other].Isend(bytes(8), dest=rank),
                      world.comms[rank].Irecv(back, source=other))
    world.settle()
    drivers = [Driver(engine) for engine in world.engines]
    for driver in drivers:
        driver.unattended = True
    return drivers


def left_alone(world, drivers, operations, limit=PATIENCE):
    """Steps by themselves, and the network, until all is complete or nothing has moved for long.

    Returns
    -------
    bool
        Whether all is complete.
    """
    idle = 0
    while idle < limit and not all(one.ended() for one in operations):
        moved = sum(driver.step() for driver in drivers)
        moved += world.turn()
        idle = 0 if moved else idle + 1
    return all(one.ended() for one in operations)


def check(operations, rooms):
    assert all((room == data).all() for room, data in rooms)
    for one in operations:
        one.release()


@pytest.mark.parametrize("source", (0, ANY), ids=("named", "any"))
@pytest.mark.parametrize("first", ("sender", "receiver"))
@pytest.mark.parametrize("size", SIZES)
def test_posted_and_left(world, size, first, source):
    """One message, either side first; both compute until it is there."""
    with world(2, seed=size) as w:
        if source == ANY and w.protocol == "pipeline":
            source = 0          # a bounce buffer is open to one peer alone (lanes, B4)
        drivers = connected(w)
        room, data = np.zeros(size, np.uint8), pattern(size, 1)
        operations = []
        for rank in (0, 1) if first == "sender" else (1, 0):
            operations.append(drivers[0].send(1, 7, data) if rank == 0 else
                              drivers[1].receive(source, 7, room))
            left_alone(w, drivers, operations, PATIENCE // 30)
        assert left_alone(w, drivers, operations)
        check(operations, [(room, data)])


@pytest.mark.parametrize("seed", range(20))
def test_programs_are_left(world, seed):
    """Many messages between three ranks, posted in any order with steps in between."""
    rng = random.Random(seed)
    with world(RANKS, seed=seed, slots=rng.choice((2, 8, None))) as w:
        drivers = connected(w)
        posts, rooms, operations = [], [], []
        for number in range(rng.choice((4, 40))):
            source, dest = rng.sample(range(RANKS), 2)
            size = rng.choice(SIZES[:-1] if number % 8 else SIZES)
            room, data = np.zeros(size, np.uint8), pattern(size, number)
            rooms.append((room, data))
            known = w.protocol == "pipeline" or rng.random() < 0.6
            posts.append((drivers[source].send, (dest, number, data)))
            posts.append((drivers[dest].receive, (source if known else ANY, number, room)))
        rng.shuffle(posts)
        for post, arguments in posts:
            operations.append(post(*arguments))
            for _ in range(rng.choice((0, 0, 1, 5))):
                rng.choice(drivers).step()
                w.turn()
        assert left_alone(w, drivers, operations)
        check(operations, rooms)


def test_small_messages_without_credit_are_left(world):
    """Sends that find no credit wait for their receiver, and for no call of their own rank."""
    with world(2, unexpected_max=1) as w:
        drivers = connected(w)
        count = 3 * (1 << 16) // 3000
        rooms = [(np.zeros(3000, np.uint8), pattern(3000, number)) for number in range(count)]
        sends = [drivers[0].send(1, number, data) for number, (_, data) in enumerate(rooms)]
        assert not left_alone(w, drivers, sends)
        operations = sends[:]
        for number, (room, _) in enumerate(rooms):
            operations.append(drivers[1].receive(0, number, room))
            drivers[1].turn()
        for _ in range(PATIENCE):
            drivers[0].step()
            drivers[1].turn()
            w.turn()
        check(operations, rooms)
