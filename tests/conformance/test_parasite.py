"""What the parasite's handler alone does for operations that need it (parasite.pyx), fired by hand.

After the last post no call is made and no step but those of handlers that are armed.  So what is
not watched, or is watched no more too early, remains undone.
"""

import random

import numpy as np
import pytest

from pyrdv.instruments.engine import ANY, Driver
from pyrdv.progress.parasite import Parasite

from .worlds import PATIENCE, pattern

#: There the network moves only while somebody polls.
WITHOUT = ("sim",)

#: Bytes; the smaller ones go eagerly, and need no trigger.
SMALL, LARGE = (0, 8, 3000), (70_000, 1_500_000)


@pytest.fixture(params=("timer", "event"))
def trigger(request):
    """What fires the handlers: with "event" one fires only if a descriptor is readable, or if its
    timer is set for what no descriptor tells.
    """
    return request.param


def begun(world, trigger="timer"):
    """Drivers of its engines, each pair of which has spoken, and their modes; no signal comes."""
    for rank in range(world.size):
        for other in range(rank):
            there, back = bytearray(8), bytearray(8)
            world.run(world.comms[rank].Isend(bytes(8), dest=other),
                      world.comms[other].Irecv(there, source=rank))
            world.run(world.comms[other].Isend(bytes(8), dest=rank),
                      world.comms[rank].Irecv(back, source=other))
    world.settle()
    modes = [Parasite(engine, turn_limit=1 << 30, by_hand=True, trigger=trigger)
             for engine in world.engines]
    for mode, engine in zip(modes, world.engines, strict=True):
        mode.begin(engine)
    return [Driver(engine) for engine in world.engines], modes


def left_alone(world, modes):
    """The handlers that are armed, and the network, until nothing has moved for long."""
    idle, before = 0, None
    while idle < PATIENCE // 10:
        for mode in modes:
            mode.fire()
        moved = world.turn()
        hits = [engine.counters()["flow_hits"] for engine in world.engines]
        idle = 0 if moved or hits != before else idle + 1
        before = hits


def finish(world, drivers, operations):
    """Complete what has moved, by calls; and let everything go."""
    for _ in range(PATIENCE):
        if all(one.ended() for one in operations):
            break
        for driver in drivers:
            driver.turn()
        world.turn()
    assert [one.result for one in operations if not one.ended()] == []
    for one in operations:
        one.release()


@pytest.mark.parametrize("source", (0, ANY), ids=("named", "any"))
@pytest.mark.parametrize("first", ("sender", "receiver"))
@pytest.mark.parametrize("size", LARGE)
def test_the_data_moves_while_both_compute(world, size, first, source, trigger):
    with world(2, seed=size) as w:
        if source == ANY and w.protocol == "pipeline":
            source = 0          # a bounce buffer is open to one peer alone (lanes, B4)
        drivers, modes = begun(w, trigger)
        room, data = np.zeros(size, np.uint8), pattern(size, 1)
        operations = []
        for rank in (0, 1) if first == "sender" else (1, 0):
            operations.append(drivers[0].send(1, 7, data) if rank == 0 else
                              drivers[1].receive(source, 7, room))
            left_alone(w, modes)
        assert (room == data).all()
        finish(w, drivers, operations)


@pytest.mark.parametrize("first", ("sender", "receiver"))
def test_a_sender_that_waits_is_let_go(world, first, trigger):
    """By the receiver's handler, which finds that the data is there; no call of it follows."""
    with world(2) as w:
        drivers, modes = begun(w, trigger)
        source = 0 if w.protocol == "pipeline" else ANY
        room, data = np.zeros(LARGE[0], np.uint8), pattern(LARGE[0], 1)
        if first == "receiver":
            receive = drivers[1].receive(source, 7, room)
        send = drivers[0].send(1, 7, data)
        if first == "sender":
            w.settle()
            receive = drivers[1].receive(source, 7, room)
        for _ in range(PATIENCE):
            if send.ended():
                break
            modes[1].fire()
            drivers[0].turn()
            w.turn()
        assert send.ended() and (room == data).all()
        finish(w, drivers, [send, receive])


@pytest.mark.parametrize("seed", range(20))
def test_programs_go_on_by_handlers(world, seed, trigger):
    """Many messages between three ranks, posted in any order, and handlers at any point between.

    Without offers, for an RTS that crosses an RTR finds a receive that is not watched; and with
    room for all packets, for who needs no trigger makes no room.
    """
    rng = random.Random(seed)
    with world(3, seed=seed, slots=64, speculation="off") as w:
        drivers, modes = begun(w, trigger)
        posts, rooms, operations = [], [], []
        for number in range(rng.choice((4, 40))):
            source, dest = rng.sample(range(3), 2)
            size = rng.choice(LARGE if number % 8 == 0 else SMALL + LARGE[:1])
            room, data = np.zeros(size, np.uint8), pattern(size, number)
            rooms.append((room, data))
            known = w.protocol == "pipeline" or rng.random() < 0.6
            posts.append((drivers[source].send, (dest, number, data)))
            posts.append((drivers[dest].receive, (source if known else ANY, number, room)))
        rng.shuffle(posts)
        for post, arguments in posts:
            operations.append(post(*arguments))
            for _ in range(rng.choice((0, 0, 1, 5))):
                rng.choice(modes).fire()
                w.turn()
        left_alone(w, modes)
        late = [pair for pair in rooms if len(pair[1]) in LARGE and not (pair[0] == pair[1]).all()]
        # Lanes that are to be opened to another peer wait for a call; no step helps.
        assert w.protocol == "pipeline" or not late
        for _ in range(PATIENCE // 10):
            for driver in drivers:
                driver.step()
            w.turn()
        assert not any((room == data).all() for room, data in late)
        finish(w, drivers, operations)
        assert all((room == data).all() for room, data in rooms)
        left_alone(w, modes)
        assert not any(mode.facts()["armed"] or mode.facts()["owner"] for mode in modes)


def test_a_flow_lives_as_long_as_what_needs_it(world, trigger):
    """One flow, however many operations; none for what needs no trigger; it dies with the last."""
    with world(2) as w:
        drivers, modes = begun(w, trigger)
        source = 0 if w.protocol == "pipeline" else ANY
        assert modes[1].facts()["signal"] == 0
        small = drivers[1].receive(source, 1, np.zeros(8, np.uint8))
        waited = drivers[1].receive(source, 2, np.zeros(70_000, np.uint8), waits=True)
        assert modes[1].facts()["signal"] == 0 and not modes[1].fire()
        rooms = [np.zeros(70_000, np.uint8) for _ in range(40)]
        receives = [drivers[1].receive(source, 3 + tag, room) for tag, room in enumerate(rooms)]
        needing = 0 if w.offers and source == 0 else 40
        assert modes[1].facts()["watched"] == needing
        assert w.engines[1].counters()["flows_spawned"] == (needing > 0)
        sends = [drivers[0].send(1, tag, bytes(8 if tag == 1 else 70_000)) for tag in range(1, 43)]
        left_alone(w, modes)
        finish(w, drivers, [small, waited, *receives, *sends])
        left_alone(w, modes)
        facts = modes[1].facts()
        assert (facts["armed"], facts["owner"], facts["watched"]) == (False, False, 0)


def test_what_was_given_up_begins_anew_with_a_request(world):
    """The turn limit ends a flow; the next request gives it back to all that it watches."""
    with world(2, speculation="off") as w:
        drivers, modes = begun(w)
        source = 0 if w.protocol == "pipeline" else ANY
        modes[1].end()
        modes[1] = mode = Parasite(w.engines[1], turn_limit=100, by_hand=True)
        mode.begin(w.engines[1])
        rooms = [np.zeros(70_000, np.uint8) for _ in range(2)]
        operations = [drivers[1].receive(source, 0, rooms[0])]
        assert [mode.fire() for _ in range(102)] == [True] * 100 + [False] * 2
        operations.append(drivers[0].send(1, 0, pattern(70_000, 0)))
        left_alone(w, modes)
        assert not rooms[0].any()
        operations.append(drivers[1].receive(source, 1, rooms[1]))
        left_alone(w, modes)
        assert (rooms[0] == pattern(70_000, 0)).all()
        operations.append(drivers[0].send(1, 1, pattern(70_000, 1)))
        finish(w, drivers, operations)


def test_the_mode_may_change_at_any_time(world, trigger):
    """After its end no handler makes a step; begun again, it watches what is posted from then."""
    with world(2) as w:
        drivers, modes = begun(w, trigger)
        source = 0 if w.protocol == "pipeline" else ANY
        room, data = np.zeros(70_000, np.uint8), pattern(70_000, 5)
        operations = [drivers[1].receive(source, 1, room)]
        modes[1].end()
        assert not drivers[1].unattended and modes[1].facts()["signal"] == 0
        assert not modes[1].fire()
        with pytest.raises(ValueError, match="another engine"):
            modes[1].begin(w.engines[0])
        modes[1].begin(w.engines[1])
        operations.append(drivers[0].send(1, 1, data))
        finish(w, drivers, operations)
        assert (room == data).all()


def settled(world, modes, limit=PATIENCE):
    """Whether no handler would fire any more, now that nothing comes (E1)."""
    for _ in range(limit):
        if not sum([mode.fire() for mode in modes]) + world.turn():
            return True
    return False


def test_no_event_no_turn(world):
    """E1: nothing fires while nothing comes, and what comes fires once it is there."""
    with world(2, speculation="off") as w:
        drivers, modes = begun(w, "event")
        source = 0 if w.protocol == "pipeline" else ANY
        room, data = np.zeros(70_000, np.uint8), pattern(70_000, 3)
        operations = [drivers[1].receive(source, 1, room)]
        assert modes[1].facts()["owner"] and settled(w, modes)
        before = w.engines[1].counters()["flow_turns"]
        left_alone(w, modes)
        assert w.engines[1].counters()["flow_turns"] == before
        operations.append(drivers[0].send(1, 1, data))
        left_alone(w, modes)
        assert (room == data).all()
        assert w.engines[1].counters()["flow_turns"] > before
        finish(w, drivers, operations)


@pytest.mark.parametrize("between", ("turn", "send", "receive"))
def test_calls_arm_anew(world, between):
    """E2: a call takes what was armed for, and what comes next is noticed all the same."""
    with world(2, speculation="off") as w:
        drivers, modes = begun(w, "event")
        source = 0 if w.protocol == "pipeline" else ANY
        rooms = [np.zeros(70_000, np.uint8) for _ in range(6)]
        operations = [drivers[1].receive(source, tag, room) for tag, room in enumerate(rooms)]
        # Posted before: a step may lack the memory to keep what nobody waits for.
        operations += [drivers[0].receive(1, 50 + tag, np.zeros(8, np.uint8))
                       for tag in range(6 if between == "send" else 0)]
        assert settled(w, modes)
        for tag, room in enumerate(rooms):
            operations.append(drivers[0].send(1, tag, pattern(70_000, tag)))
            for number in range(20):
                w.turn()
                if between == "turn" or number:
                    drivers[1].turn()
                elif between == "send":
                    operations.append(drivers[1].send(0, 50 + tag, bytes(8)))
                else:
                    operations.append(drivers[1].receive(source, 99, np.zeros(8, np.uint8)))
            left_alone(w, modes)
            assert (room == pattern(70_000, tag)).all(), tag
        for _ in range(6 if between == "receive" else 0):
            operations.append(drivers[0].send(1, 99, bytes(8)))
        finish(w, drivers, operations)
