"""What is registered for a message, and how much stays so: C3 and the bounds of memory/mappings."""

import numpy as np

N = 100_000


def filled(n=N, value=1):
    return np.full(n, value, np.uint8)


# ---------------------------------------------------------------- what is registered


def test_pieces_of_an_array_join(pair):
    """Walking through an array, up or down, registers it a few times and not once per piece."""
    world = pair()
    for order in (range(64), range(63, -1, -1)):
        data = filled(64 * 16_384)
        before = world.count()["misses"]
        for piece in order:
            world.send(data[piece * 16_384:(piece + 1) * 16_384])
        assert world.count()["misses"] - before <= 8
        assert world.count()["bytes"] == len(data) and world.kept() == 1
        del data


def test_pieces_apart_stay_apart(pair):
    world = pair()
    data = filled(1 << 20)
    world.send(data[:20_000])
    world.send(data[500_000:520_000])
    assert world.kept() == 2
    assert world.count()["bytes"] < 60_000


def test_nothing_outside_the_array_is_registered(pair):
    world = pair()
    data = filled(20_001)
    world.send(data[1:20_000])
    assert world.count()["bytes"] <= 20_001


def test_rights_are_joined(pair):
    """An array that was sent and is received into has one registration, for both."""
    world = pair()
    data = filled()
    world.send(data)
    receive = world.comms[0].Irecv(data, 1)
    world.settle(receive, world.comms[1].Isend(filled(N, 9), 0))
    assert (data == 9).all()
    world.send(data)
    world.settle(world.comms[0].Irecv(data, 1), world.comms[1].Isend(filled(N, 8), 0))
    count = world.count()
    assert (count["misses"], count["hits"], count["entries"]) == (
        (2, 2, 1) if world.sinks else (1, 1, 1))


def test_a_mapping_that_is_replaced_lives_to_the_end_of_its_message(sim):
    world = sim()
    data = filled(4 * N)
    first = world.comms[0].Isend(data[:N], 1, 1)
    second = world.comms[0].Isend(data[N // 2:4 * N], 1, 2)
    assert world.count()["entries"] == 1
    assert world.kept() == 2
    rooms = [np.empty(4 * N, np.uint8) for _ in range(2)]
    world.settle(world.comms[1].Irecv(rooms[0], 0, 1), world.comms[1].Irecv(rooms[1], 0, 2),
                 first, second)
    assert world.kept() == 1


# ---------------------------------------------------------------- bounds


def test_entries_are_bounded_and_the_longest_unused_goes(pair):
    world = pair(entries_max=3)
    arrays = [filled(N, number) for number in range(4)]
    for data in arrays[:3]:
        world.send(data)
    world.send(arrays[0])
    world.send(arrays[3])       # 1 is the longest unused
    assert world.kept() == 3 and world.count()["evictions"] == 1
    hits = world.count()["hits"]
    for number in (0, 2, 3):
        world.send(arrays[number])
    assert world.count()["hits"] == hits + 3
    world.send(arrays[1])
    assert world.count()["hits"] == hits + 3


def test_bytes_are_bounded(pair):
    world = pair(bytes_max=3 * N)
    arrays = [filled(N, number) for number in range(10)]
    for data in arrays:
        world.send(data)
        assert world.count()["bytes"] <= 3 * N
    assert world.count()["evictions"] == 7
    large = filled(4 * N)
    world.send(large)
    assert world.count()["bytes"] <= 3 * N and world.count()["unkept"] == 1


def test_what_is_in_use_is_not_evicted(sim):
    world = sim(entries_max=2)
    arrays = [filled(N, number) for number in range(5)]
    sends = [world.comms[0].Isend(data, 1, number) for number, data in enumerate(arrays)]
    assert world.count()["evictions"] == 0 and world.count()["unkept"] == 3
    assert world.kept() == 5
    for number, data in enumerate(arrays):
        world.settle(world.comms[1].Irecv(world.room, 0, number))
        assert (world.room[:N] == data).all()
    world.settle(*sends)
    assert world.kept() == 2


def test_many_arrays_that_live_on(pair):
    """R07: each sent once; neither regions nor what is known of owners pile up."""
    world = pair(entries_max=16)
    arrays = [filled(9000) for _ in range(2000)]
    for data in arrays:
        world.send(data)
    assert world.kept() <= 16
    assert world.count()["owners"] < 200
    del arrays, data
    assert world.kept() == 0 and world.count()["owners"] == 0


def test_scarce_memory_is_taken_from_the_cache(sim):
    """A registration that fails is tried again without what is kept unused."""
    world = sim(lockable=5 * N)
    arrays = [filled(N, number) for number in range(20)]
    for data in arrays:
        world.send(data, np.empty(N, np.uint8))
    assert world.network.locked(0) <= 5 * N
    assert world.count()["evictions"] == 15
    world.send(bytearray(4 * N + 1), np.empty(5 * N, np.uint8))
    assert world.count()["entries"] == 0
    world.send(arrays[0], np.empty(N, np.uint8))
    assert world.count()["entries"] == 1


def test_what_cannot_be_registered_arrives_all_the_same(sim):
    """Not even without all that is kept: by the superpipeline, whose buffers come first."""
    world = sim(lockable=2 << 20, protocol="auto")
    arrays = [filled(N, number) for number in range(30)]
    for data in arrays:
        world.send(data)
    assert world.count()["evictions"] > 0 and world.count()["entries"] > 0
    world.send(bytearray(range(256)) * 12_000)
    assert world.engines[0].counters()["sends_piped"] == 1
    for data in arrays:
        world.send(data)
    room = np.empty(3 << 20, np.uint8)
    world.settle(world.comms[0].Irecv(room, 1),
                 world.comms[1].Isend(np.full(3 << 20, 5, np.uint8), 0))
    assert (room == 5).all()
    world.send(arrays[0])
    assert world.count()["entries"] == 1
