"""The control path of the verbs fabric on a device: one process, several ranks."""

import gc
import json
import os
import subprocess
import threading
import time

import pytest

from pyrdv.instruments.fabric import AGAIN, CLOSED, LOST, OK, PACKET, PEER_LOST, READ
from tests.fabrics.conftest import TOKEN
from tests.support.ready import readable

pytestmark = pytest.mark.verbs

PATIENCE = 30   # s; generous: only a hang takes that long


def until(condition, drivers, limit=PATIENCE):
    """Turn all drivers until ``condition()`` holds; the events of each, polled meanwhile."""
    events = [[] for _ in drivers]
    end = time.monotonic() + limit
    while not condition():
        for driver, seen in zip(drivers, events, strict=True):
            driver.maintain()
            seen += driver.poll()
        assert time.monotonic() < end, f"the condition does not hold after {limit} s: {events}"
        time.sleep(0.0002)
    return events


def connect(drivers, pairs=None):
    """Connect all pairs, or the ordered ones given."""
    wanted = pairs or [(a, b) for a in range(len(drivers)) for b in range(len(drivers)) if a != b]
    until(lambda: not any([drivers[a].connect(b) for a, b in wanted]), drivers)


def end_of(drivers, who, peer, limit=PATIENCE):
    """How the connection to `peer` ended for `who`."""
    ends = []

    def over():
        for at, driver in enumerate(drivers):
            driver.maintain()
            ends.extend((at, event[1], event[0]) for event in driver.poll()
                        if event[0] in (CLOSED, PEER_LOST))
        return any(end[:2] == (who, peer) for end in ends)

    until(over, [], limit)
    return next(kind for at, of, kind in ends if (at, of) == (who, peer))


def talk(drivers, a, b):
    assert drivers[a].send(b, b"%d to %d" % (a, b)) == OK
    got = []
    until(lambda: got or got.extend(drivers[b].poll()), [drivers[a]])
    assert got == [(PACKET, a, b"%d to %d" % (a, b))]


def resources():
    """Objects of all devices in this machine's kernel."""
    text = subprocess.run(["rdma", "-j", "resource", "show"], capture_output=True, text=True,
                          check=True).stdout
    return {(one["ifname"], kind): one.get(kind, 0) for one in json.loads(text)
            for kind in ("cq", "qp", "cm_id", "mr", "pd")}


def test_either_side_may_connect(fabrics):
    """One connection serves both directions."""
    drivers = fabrics(3)
    connect(drivers, [(0, 1), (2, 1)])
    connect(drivers, [(1, 0), (1, 2)])
    assert [driver.fabric.counters["links"] for driver in drivers] == [1, 2, 1]
    talk(drivers, 0, 1)
    talk(drivers, 1, 0)
    talk(drivers, 1, 2)


@pytest.mark.parametrize("first", [0, 1])
def test_simultaneous_connects(fabrics, first):
    """J1, case P10: exactly one connection per pair, whoever is a little earlier."""
    for round_ in range(8):
        drivers = fabrics(2)
        for who in (first, 1 - first):
            assert drivers[who].connect(1 - who) == AGAIN
            for _ in range(round_ * 3):
                drivers[who].maintain()
                time.sleep(0.001)
        connect(drivers)
        assert [driver.fabric.counters["links"] for driver in drivers] == [1, 1]
        talk(drivers, 0, 1)
        talk(drivers, 1, 0)
        for driver in drivers:
            driver.fabric.close()


def test_simultaneous_connects_of_two_threads(fabrics):
    """J1: requests that really cross."""
    for _ in range(12):
        drivers = fabrics(2)
        start = threading.Barrier(2)
        statuses = {}

        def go(who, drivers=drivers, start=start, statuses=statuses):
            start.wait()
            end = time.monotonic() + PATIENCE
            status = AGAIN
            while status == AGAIN and time.monotonic() < end:
                status = drivers[who].connect(1 - who)
                drivers[who].maintain()
                time.sleep(0.0001)
            statuses[who] = status

        threads = [threading.Thread(target=go, args=(who,)) for who in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == {0: OK, 1: OK}
        assert [driver.fabric.counters["links"] for driver in drivers] == [1, 1]
        talk(drivers, 1, 0)
        for driver in drivers:
            driver.fabric.close()


def test_goodbye(fabrics):
    """What was posted arrives, although its sender closes at once and nobody had polled."""
    drivers = fabrics(2)
    connect(drivers)
    for i in range(20):
        assert drivers[0].send(1, bytes([i]), bytes(1000)) == OK
    drivers[0].disconnect(1)
    drivers[0].fabric.close()
    events = until_end(drivers[1])
    assert [event[2][0] for event in events[:-1]] == list(range(20))
    assert events[-1] == (CLOSED, 0)


def until_end(driver):
    events = []
    end = time.monotonic() + PATIENCE
    while not events or events[-1][0] not in (CLOSED, PEER_LOST):
        driver.maintain()
        events += driver.poll()
        assert time.monotonic() < end, events
    return events


def test_goodbye_before_the_connection_is_up(fabrics):
    """A rank that is done with a peer tells it so as soon as that connects."""
    drivers = fabrics(2)
    drivers[1].disconnect(0)
    connect(drivers, [(0, 1)])
    assert end_of([drivers[0], drivers[1]], 0, 1) == CLOSED


def test_calm_while_nobody_connects_or_leaves(fabrics):
    """The engine looks for connections rarely then: it must not be said of a link that moves."""
    drivers = fabrics(3)
    assert drivers[0].connect(1) == AGAIN
    assert not drivers[0].calm
    connect(drivers, [(0, 1)])
    until(lambda: drivers[0].calm and drivers[1].calm, drivers)
    # Another one comes: who is asked learns of it in a look, and is calm again when that is over.
    assert drivers[2].connect(0) == AGAIN
    assert not drivers[2].calm
    until(lambda: drivers[2].connect(0) == OK, drivers)
    until(lambda: all(driver.calm for driver in drivers), drivers)
    talk(drivers, 2, 0)
    drivers[1].disconnect(0)
    assert not drivers[1].calm
    assert end_of(drivers, 0, 1) == CLOSED
    # Its memory and its queue pair are given back by further looks.
    until(lambda: drivers[0].calm, drivers)


def test_goodbyes_of_both(fabrics):
    drivers = fabrics(2)
    connect(drivers)
    for who in (0, 1):
        drivers[who].disconnect(1 - who)
    events = [[], []]

    def both():
        for who in (0, 1):
            drivers[who].maintain()
            events[who] += drivers[who].poll()
        return all(events)

    until(both, [])
    assert events == [[(CLOSED, 1)], [(CLOSED, 0)]]
    for driver in drivers:
        driver.fabric.close()


def test_end_without_goodbye_is_a_loss(fabrics):
    """N4; the others go on."""
    drivers = fabrics(3)
    connect(drivers)
    drivers[0].fabric.vanish()
    began = time.monotonic()
    for who in (1, 2):
        assert until_end(drivers[who]) == [(PEER_LOST, 0)]
        assert "rank 0" in drivers[who].fabric.failure_text(0)
        assert drivers[who].connect(0) == LOST
    assert time.monotonic() - began < 5
    talk(drivers, 1, 2)


def test_end_in_the_middle_of_a_read(fabrics):
    """F4, F7: the READ is ended before the peer's end is told."""
    drivers = fabrics(2)
    connect(drivers)
    source = drivers[0].register(bytearray(8 << 20))
    sink = drivers[1].register(bytearray(8 << 20))
    piece = 1 << 20
    for i in range(4):
        assert drivers[1].read(0, sink, source.address + i * piece, source.key, piece, i,
                              i * piece) == OK
    drivers[0].fabric.vanish()
    events = until_end(drivers[1])
    assert [event[:3] for event in events] == [(READ, 0, i) for i in range(4)] + [(PEER_LOST, 0)]
    assert all(event[3] in (OK, LOST) for event in events[:-1])
    sink.deregister()


def test_strangers_are_refused(fabrics):
    """H3: the job's secret decides, and the refused end says so."""
    drivers = fabrics(2, tokens={1: b"other"})
    until(lambda: drivers[0].connect(1) != AGAIN, drivers)
    assert drivers[0].connect(1) == LOST
    assert "not of this job" in drivers[0].fabric.failure_text(1)
    # A request that got no answer in time is sent again.
    assert drivers[1].fabric.counters["refused"] >= 1
    assert drivers[1].fabric.counters["links"] == 0


def test_nobody_listens_any_more(fabrics):
    """J3: noticed well before the peer timeout."""
    drivers = fabrics(2, peer_timeout=20.0)
    drivers[1].fabric.close()
    began = time.monotonic()
    until(lambda: drivers[0].connect(1) != AGAIN, drivers[:1])
    assert drivers[0].connect(1) == LOST
    assert time.monotonic() - began < 10
    text = drivers[0].fabric.failure_text(1)
    assert "rank 1" in text
    assert "cannot be reached" in text


def test_busy_peer_is_waited_for(fabrics):
    """J3: a peer that computes for longer than the peer timeout is not lost."""
    drivers = fabrics(2, peer_timeout=1.0)
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        assert drivers[0].connect(1) == AGAIN
        drivers[0].maintain()
        time.sleep(0.002)
    connect(drivers)
    talk(drivers, 0, 1)
    talk(drivers, 1, 0)


def test_silence_of_a_living_peer(fabrics):
    """N5: its machine answers for it, however long its program computes."""
    drivers = fabrics(2, peer_timeout=0.5)
    connect(drivers)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        drivers[0].maintain()
        assert drivers[0].poll() == []
        time.sleep(0.002)
    assert drivers[0].fabric.counters["pings"] >= 3
    talk(drivers, 0, 1)


def test_own_absence_is_nobodys_silence(fabrics):
    """N5: who did not look for long finds the peer alive."""
    drivers = fabrics(2, peer_timeout=0.5)
    connect(drivers)
    for _ in range(3):
        time.sleep(1.2)
        for driver in drivers:
            driver.maintain()
            assert driver.poll() == []
    talk(drivers, 0, 1)


def test_sleeper_is_woken_by_a_request(fabrics):
    """F8: a rank that sleeps accepts."""
    drivers = fabrics(2)
    assert drivers[1].arm() == OK
    end = time.monotonic() + PATIENCE
    while drivers[0].connect(1) == AGAIN:
        assert time.monotonic() < end
        drivers[0].maintain()
        if readable(drivers[1].wake_fd, 0.001):
            drivers[1].disarm()
            drivers[1].maintain()
            drivers[1].poll()
            drivers[1].arm()
    drivers[1].disarm()
    talk(drivers, 0, 1)


def test_connect_all(fabrics):
    """All ranks at once, without threads of the library; odd and even numbers of ranks."""
    for size in (2, 4, 5):
        drivers = fabrics(size)
        failed = []

        def go(driver, failed=failed):
            try:
                driver.fabric.connect_all(PATIENCE)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=go, args=(driver,)) for driver in drivers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert [driver.fabric.counters["links"] for driver in drivers] == [size - 1] * size
        talk(drivers, 0, size - 1)
        for driver in drivers:
            driver.fabric.close()


def test_connect_all_names_who_is_missing(fabrics):
    drivers = fabrics(2)
    with pytest.raises(TimeoutError, match=r"ranks \[1\]"):
        drivers[0].fabric.connect_all(0.3)


def test_forked_child_does_no_harm(fabrics):
    """Case R03: the child closes its copies, and the parent's connections stay."""
    drivers = fabrics(2)
    connect(drivers)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            drivers[0].fabric.close()
            status = 0 if drivers[0].fabric.closed else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    talk(drivers, 0, 1)
    talk(drivers, 1, 0)


def test_nothing_is_left(fabrics):
    """Case R11: every object of the device is given back, in any order of closing."""
    before = resources()
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        drivers = fabrics(3)
        connect(drivers)
        kept = drivers[0].register(bytearray(1 << 16))
        for who in order:
            drivers[who].fabric.close()
        kept.deregister()
    gc.collect()
    assert resources() == before


def test_many_connections_one_after_another(fabrics):
    """Case N08: nothing is used up."""
    before = resources()
    began = time.monotonic()
    for _ in range(40):
        drivers = fabrics(2)
        connect(drivers, [(0, 1)])
        drivers[0].disconnect(1)
        for driver in drivers:
            driver.fabric.close()
    assert time.monotonic() - began < 60
    assert resources() == before


def test_addresses(fabrics, rdma_device):
    """Damaged or foreign addresses are refused with a text."""
    drivers = fabrics(2)
    fabric = drivers[0].fabric
    good = drivers[1].fabric.address
    for bad, text in ((good[:3], "at least"), (b"\x02" + good[1:], "version 2"),
                      (good[:-1], "damaged"), (good[:4] + b"\xff" + good[5:], "damaged")):
        with pytest.raises(ValueError, match=text):
            fabric.set_peers([None, bad])
    with pytest.raises(ValueError, match="3 addresses for 2 ranks"):
        fabric.set_peers([None, good, good])
    assert fabric.device == f"{rdma_device.name}:{rdma_device.port}"


def test_peer_without_common_address(fabrics):
    """The text says what does not fit."""
    from pyrdv.fabrics.verbs.addresses import pack_address
    from pyrdv.fabrics.verbs.gids import Candidate

    drivers = fabrics(2)
    fabric = drivers[0].fabric
    fabric.set_peers([None, pack_address([Candidate("10.0.0.9", 4, 24, "InfiniBand")],
                                         [b"\x12\x34"])])
    assert drivers[0].connect(1) == LOST
    assert "InfiniBand" in fabric.failure_text(1)


@pytest.mark.parametrize(("parameters", "text"), [
    ({"ring": "maybe"}, "'auto', 'on' or 'off'"), ({"peer_timeout": 0.0}, "peer timeout of 0"),
    ({"device": "rxe77"}, "rxe77"), ({"gid": 4000}, "GID 4000")])
def test_arguments(rdma_device, parameters, text):
    from pyrdv.fabrics.verbs.fabric import VerbsFabric

    with pytest.raises((ValueError, OSError), match=text):
        VerbsFabric(0, 2, TOKEN, **{"device": rdma_device.name} | parameters)
