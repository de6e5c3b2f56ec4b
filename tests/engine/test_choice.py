"""Which protocol a large message takes, and by which figures (engine/choice/costs, profiles)."""

import json
import time
import warnings

import numpy as np
import pytest

from pyrdv.engine import profiles
from pyrdv.engine.choice import costs, rule
from pyrdv.tools import cost_model, doctor_protocols, tune
from tests.support.figures import SOFT_ROCE

N = 1 << 18
BUFFER = 128 << 10


def profile(registration, gap=1e-7, latency=2e-6, reads=1e9):
    """A network of 1 GB/s, copies of 4 GB/s; a registration takes this long, s, at any size."""
    return {"schema": profiles.SCHEMA, "ends": ["verbs a:1", "verbs b:1"], "latency": latency,
            "gap": gap, "overhead": 1e-7, "eager_max": 8192, "packet_max": 65536,
            "net": [[size, 2e-6 + size / 1e9] for size in tune.SIZES],
            "read": [[size, 4e-6 + size / reads] for size in tune.SIZES],
            "copy": [[size, size / 4e9] for size in tune.SIZES],
            "registration": [[size, registration, 0.0] for size in tune.SIZES],
            "registration_refused": False}


#: Worth it after a few messages; never worth it; always.
DEAR, PROHIBITIVE, CHEAP = profile(100e-6), profile(1.0), profile(1e-9)


@pytest.fixture
def pair(pair):
    """The same with the figures of a network."""
    return lambda known, **options: pair(figures=[known], **options)


def send(one, data, room, waits=(True, True), owned=True, first="send"):
    """`data` from rank 0 to rank 1; how many of the two ends wait for it."""
    one.exchange(data, first, room=room, waits=waits, owned=owned)


def picks(one, rank=0):
    """How often this rank took memory that was registered, registered it, copied, and did not
    copy because somebody did not wait."""
    return tuple(one.count(f"picks_{name}", rank)
                 for name in ("cached", "fresh", "piped", "unwaited"))


def fresh(seed=0):
    return np.full(N, seed, np.uint8)


def test_without_figures_nothing_changes(pair):
    one = pair(None)
    for seed in range(5):
        send(one, fresh(seed), fresh(99))
    assert picks(one) == picks(one, 1) == (0, 0, 0, 0)
    assert one.count("reads", 1) == 5 and one.count("sends_piped") == 0


@pytest.mark.parametrize("choice, piped", [("get", 0), ("pipeline", 5)])
def test_the_knob_comes_first(pair, choice, piped):
    one = pair(DEAR, protocol=choice)
    for seed in range(5):
        send(one, fresh(seed), fresh(99))
    assert one.count("sends_piped") == piped and picks(one) == (0, 0, 0, 0)


def test_one_shot_arrays_are_copied(pair):
    """As in IS: each message from and into new memory; soon none of it is registered."""
    one = pair(DEAR)
    for seed in range(20):
        send(one, fresh(seed), fresh(99))
    before = one.count("sends_piped"), one.count("registration_misses")
    assert picks(one)[2] > 10
    for seed in range(20):
        send(one, fresh(seed), fresh(99))
    assert one.count("sends_piped") == before[0] + 20
    assert one.count("registration_misses") == before[1]


def test_arrays_used_again_are_registered(pair):
    """As in CG: the same memory each time, which is registered once."""
    one = pair(DEAR)
    data, room = fresh(1), fresh(99)
    for seed in range(30):
        data[:] = seed
        send(one, data, room)
    assert picks(one)[0] >= 20 and one.count("registration_misses") == 1
    piped = one.count("sends_piped")
    send(one, data, room)
    assert one.count("sends_piped") == piped


def test_an_array_that_is_kept_after_many_that_were_not(pair):
    """The history of its class says copy; its own soon says register."""
    one = pair(DEAR)
    for seed in range(40):
        send(one, fresh(seed), fresh(99))
    data, room = fresh(1), fresh(99)
    cached = picks(one)[0]
    for _ in range(40):
        send(one, data, room)
    assert picks(one)[0] > cached + 20


@pytest.mark.parametrize("waits", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("first", ["send", "receive"])
def test_copied_only_while_both_ends_wait(pair, waits, first):
    """A READ goes on while one of them computes, a superpipeline does not."""
    one = pair(PROHIBITIVE)
    for seed in range(8):
        send(one, fresh(seed), fresh(99), waits, first=first)
    assert one.count("sends_piped") == 0 and one.count("reads", 1) == 8
    assert picks(one) == (0, 0, 0, 8)


def test_a_sender_learns_that_its_peer_waits(pair):
    """The first message registers; the receiver, who knows of both, copies at once."""
    one = pair(PROHIBITIVE)
    for seed in range(3):
        send(one, fresh(seed), fresh(99))
    assert one.count("sends_piped") == 3
    assert picks(one) == (0, 0, 1, 2) and picks(one, 1) == (0, 0, 2, 0)
    # It forgets with the first receive that does not wait.
    send(one, fresh(7), fresh(99), (True, False))
    send(one, fresh(8), fresh(99), (True, False))
    assert picks(one)[3] == 3 and one.count("reads", 1) == 1


def started(one, number, wanted=(True, True), late=0.0):
    """A message by calls that go on, whose callers then wait, `late` seconds later, or do not."""
    data, room = fresh(number), fresh(99)
    operations = [one.ends[0].send(1, 0, data, owned=True),
                  one.ends[1].receive(0, 0, room, owned=True)]
    time.sleep(late)
    for operation, waits in zip(operations, wanted, strict=True):
        if waits:
            operation.wanted()
    for _ in range(2000):
        for end in one.ends:
            end.turn()
        if all(operation.ended() for operation in operations):
            break
    assert np.array_equal(data, room)
    for operation in operations:
        operation.release()


#: A message takes 2.6 s over it, so "soon" is 0.3 s.
SLOW = {**PROHIBITIVE,
        **{name: [[size, size / 1e5] for size in tune.SIZES] for name in ("net", "read")}}


def test_who_soon_waits_counts_as_waiting(pair):
    """`Isend` and `Irecv`, then `Waitall`: after two of them both sides may copy; one that came
    late, or never, ends that.  One that was complete at once says nothing."""
    one = pair(SLOW)
    for number in range(6):
        started(one, number)
    assert one.count("sends_piped") == 4
    started(one, 7, wanted=(False, False))
    started(one, 8)
    assert one.count("sends_piped") == 6
    for how in ({"late": 0.4}, {"late": 0.4, "wanted": (False, False)}):
        # By what was known when it started; the next ones go by what it showed.
        started(one, 7, **how)
        piped = one.count("sends_piped")
        started(one, 8)
        assert one.count("sends_piped") == piped, how
        for number in range(3):
            started(one, number)
        assert one.count("sends_piped") > piped, how


def test_cheap_registrations(pair):
    one = pair(CHEAP)
    for seed in range(8):
        send(one, fresh(seed), fresh(99))
    assert one.count("sends_piped") == 0 and picks(one) == (0, 8, 0, 0)


def test_memory_of_nobody_is_never_expected_again(pair):
    one = pair(profile(300e-6))
    for seed in range(6):
        send(one, fresh(seed), fresh(99), owned=False)
    assert one.count("sends_piped") >= 4


def test_a_look_into_the_cache_leaves_it_as_it_is(pair):
    """What is chosen counts one hit per message, as without figures."""
    one = pair(CHEAP)
    data, room = fresh(1), fresh(99)
    for _ in range(5):
        send(one, data, room)
    assert one.count("registration_hits") == 4 and one.count("registration_misses") == 1


@pytest.mark.parametrize("size", [16 << 10, 64 << 10, 1 << 20])
@pytest.mark.parametrize("cost", [1e-9, 1e-6, 3e-6, 30e-6, 1.0])
def test_the_doctor_says_what_the_engine_does(pair, size, cost):
    """Both ends new to memory that is not kept, and patient."""
    known = profile(cost)
    one = pair(known, mode="off")
    for seed in range(4):
        send(one, np.full(size, seed, np.uint8), np.zeros(size, np.uint8))
    taken = "placed" if one.count("sends_placed") else "pipeline" if picks(one)[2] else "get"
    assert taken == rule.explain(known, size, uses=1, standing=True)[0]
    settings = type("", (), {"eager_max": 0, "protocol": "auto", "speculation": "off",
                             "pipeline_buffer": BUFFER})
    told = doctor_protocols.choice(known, settings, size)[1]
    assert " from " not in told if taken == "get" else f"{taken} from" in told
    times = doctor_protocols.predicted(known, size)
    assert (min(times["pipeline"], times["placed"]) < times["get, fresh"]) == (taken != "get")


def test_times():
    """The model of the paper, but for the chunk that is copied out at the end."""
    size = 1 << 20
    known = profile(20e-6, gap=0.0)
    seconds = costs.predict(known, size)
    choice, _, cost, instead = rule.explain(known, size, uses=1)
    raw = cost_model.net(known, size) + 2 * known["latency"]
    assert seconds["get"] == pytest.approx(raw + 40e-6)
    assert costs.predict(known, size, 2, 0)["get"] == pytest.approx(raw + 10e-6)
    assert raw < seconds["pipeline"] <= raw + (128 << 10) / 4e9 * 1.01
    assert choice == ("get" if seconds["get"] <= seconds["pipeline"] else "pipeline")
    assert sorted((cost, instead)) == sorted((seconds["get"], seconds["pipeline"]))
    assert cost == min(cost, instead)
    slow = {**known, "copy": [[size, size / 1e8] for size in tune.SIZES]}
    assert costs.predict(slow, size)["pipeline"] > size / 1e8


@pytest.mark.parametrize("size", [N, 1 << 20])
def test_reads_slower_than_writes(pair, size):
    """As on soft-iWARP: what a READ takes counts, not what a WRITE of the size takes."""
    alike, slow = (profile(1e-6, latency=1e-6, reads=rate) for rate in (1e9, 5e8))
    for known, taken in ((alike, "get"), (slow, "pipeline")):
        seconds = costs.predict(known, size, 0, 0)
        assert rule.explain(known, size)[0] == taken
        assert seconds["get"] == pytest.approx(1e-6 + costs.seconds(known["read"], size))
        assert seconds["pipeline"] == costs.predict(alike, size)["pipeline"]
    for known, piped in ((alike, 0), (slow, 3)):
        one = pair(known)
        for seed in range(3):
            send(one, np.full(size, seed, np.uint8), np.zeros(size, np.uint8))
        assert one.count("sends_piped") == piped and one.count("reads", 1) == 3 - piped


def test_chunks_follow_the_figures(pair):
    assert costs.chunks(profile(1e-6)) == (16000, 400)
    assert costs.chunks(profile(1e-6, latency=1.0)) == (256 << 10, 400)
    assert costs.chunks(SOFT_ROCE) == (256 << 10, 400)
    few, many = (pair(known, protocol="pipeline") for known in (profile(1e-6), None))
    for one in (few, many):
        send(one, fresh(1), fresh(99))
    assert few.count("chunks_sent") < many.count("chunks_sent")


# Profiles ----------------------------------------------------------------------

class Device:
    kind, device = "rxe", "a:1"


def test_a_profile_of_this_device(tmp_path):
    (tmp_path / "p").write_text(json.dumps(DEAR))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert profiles.of_fabrics(str(tmp_path / "p"), [object(), Device()]) == [None, DEAR]
        assert profiles.of_fabrics("", [object(), Device()]) == [None, None]
        assert profiles.of_fabrics("", [object(), Device()], CHEAP) == [None, CHEAP]
        # The profile is the master.
        assert profiles.of_fabrics(str(tmp_path / "p"), [Device()], CHEAP) == [DEAR]
    assert profiles.SCHEMA == tune.SCHEMA


@pytest.mark.parametrize("content, told", [
    (None, "cannot read"),
    ("{", "it is no JSON"),
    (json.dumps({**DEAR, "ends": ["verbs c:1", "shmem"]}), "this rank uses verbs a:1"),
    (json.dumps({**DEAR, "schema": "pyrdv-tune/1"}), "its schema is 'pyrdv-tune/1'"),
    (json.dumps({**DEAR, "net": []}), "two points at least"),
    (json.dumps({**DEAR, "read": DEAR["read"][:1]}), "two points at least"),
    (json.dumps({key: value for key, value in DEAR.items() if key != "read"}), "read"),
    (json.dumps({**DEAR, "net": [[8, 1], [4, 1]]}), "not times of growing sizes"),
    (json.dumps({**DEAR, "copy": "x"}), "is broken"),
    (json.dumps({**DEAR, "latency": "x"}), "is broken"),
    (json.dumps({**DEAR, "latency": -1}), "must be times"),
    (json.dumps({key: value for key, value in DEAR.items() if key != "gap"}), "gap"),
    (json.dumps({**DEAR, "net": [[size, 1] for size in range(1, 12)]}), "11 points"),
])
def test_a_profile_that_cannot_be_used_is_a_warning(tmp_path, content, told):
    if content is not None:
        (tmp_path / "p").write_text(content)
    with pytest.warns(UserWarning, match="PYRDV_PROFILE is not used") as caught:
        found = profiles.of_fabrics(str(tmp_path / "p"), [Device()])
    assert found == [None]
    assert told in str(caught[0].message) and "pyrdv tune --output" in str(caught[0].message)


@pytest.mark.parametrize("known, size, waits, standing, offered", [
    (None, N, True, 4, True),
    (CHEAP, N, True, 4, True),
    (PROHIBITIVE, N, False, 4, True),           # who computes cannot copy
    (PROHIBITIVE, N, True, 4, False),           # copied through lanes
    (PROHIBITIVE, BUFFER, False, 4, False),     # placed
    (PROHIBITIVE, BUFFER, False, 0, True),      # there are no buffers to place it into
])
def test_an_offer_asks_the_same_rule(pair, known, size, waits, standing, offered):
    """Buffers are offered to what would be read or written straight, and to nothing else."""
    one = pair(known, speculation="indexed", standing=standing)
    room = np.zeros(size, np.uint8)
    send(one, np.full(size, 7, np.uint8), room, waits=(False, waits), first="receive")
    assert one.count("rtrs_sent", 1) == one.count("rtrs_used") == offered
