"""pyrdv.launch.bootstrap and .server in ordinary use."""

import os
import threading
import time

import pytest

from pyrdv.errors import BootstrapError, PeerLostError
from pyrdv.launch import bootstrap, env, frames
from tests.support.bench import at_once, wait_notices


@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
def test_exchange_gives_every_rank_all_values_in_order(bench, size):
    one = bench(5)
    clients = [one.client(rank) for rank in range(5)]
    for _ in range(3):
        got = at_once(*[lambda c=c: c.exchange(bytes([c.rank]) * size) for c in clients])
        assert got == [[bytes([rank]) * size for rank in range(5)]] * 5
    for client in clients:
        client.leave()
    assert one.said == []


def test_timeout_names_who_is_missing_and_the_client_stays_usable(bench):
    one = bench(3)
    a, b = one.client(0), one.client(1)
    with pytest.raises(BootstrapError) as caught:
        a.exchange(b"x", timeout=0.3)
    assert "not connected: 2" in str(caught.value) and "step: 1" in str(caught.value)
    assert "PYRDV_TIMEOUT_START" in str(caught.value)
    c = one.client(2)
    assert at_once(lambda: a.exchange(b"A"), lambda: b.exchange(b"B"),
                   lambda: c.exchange(b"C")) == [[b"A", b"B", b"C"]] * 3


def test_limits_are_named_and_harm_nothing(bench):
    one = bench(1)
    a = one.client(0)
    with pytest.raises(BootstrapError, match="limit of 1048576"):
        a.exchange(bytes((1 << 20) + 1))
    assert a.exchange(b"fine") == [b"fine"]


def test_leaving_in_order_and_otherwise(bench):
    one = bench(4)
    a, b, c, d = [one.client(rank) for rank in range(4)]
    b.leave()
    assert [(rank, kind) for rank, kind, _ in wait_notices(a)] == [(1, "left")]
    c.leave(3)
    (rank, kind, text), = wait_notices(a)
    assert (rank, kind) == (2, "lost") and "status 3" in text
    d.close()
    (rank, kind, text), = wait_notices(a)
    assert (rank, kind) == (3, "lost") and "without leaving" in text
    assert a.notices() == []
    b.leave()  # again: nothing happens
    with pytest.raises(BootstrapError, match="has left"):
        b.exchange(b"x")


def test_reported_end_comes_with_its_reason_and_only_once(bench):
    one = bench(2)
    a, b = one.client(0), one.client(1)
    b.close()
    one.call(lambda: one.server.rank_ended(1, False, "was killed by signal 9"))
    time.sleep(0.5)
    assert wait_notices(a) == [(1, "lost", "was killed by signal 9")]
    assert a.notices() == []


def test_ranks_are_asked_what_they_wait_for(bench):
    one = bench(3)
    a, b = one.client(0), one.client(1)
    heard = []
    one.call(lambda: heard.append(one.server.ask()))
    assert heard == [2]
    assert wait_notices(a) == wait_notices(b) == [(-1, "report", "")]


def test_a_notice_of_no_kind_ends_the_connection(bench):
    one = bench(1)
    a = one.client(0)
    body = frames.pack_kind_rank_text(len(frames.NOTICE_KINDS), 0, "")
    one.call(lambda: one.server._send(one.server._ranks[0], frames.NOTICE, 0, body))
    found = wait_notices(a)
    assert [kind for _, kind, _ in found] == ["launcher"] and "notice of kind 3" in found[0][2]


def test_late_comer_hears_of_earlier_ends(bench):
    one = bench(3)
    one.client(1).leave()
    one.call(lambda: one.server.rank_ended(2, False, "was killed by signal 11"))
    late = one.client(0)
    found = wait_notices(late, 2)
    assert sorted((rank, kind) for rank, kind, _ in found) == [(1, "left"), (2, "lost")]
    with pytest.raises(PeerLostError, match="rank 2 was killed by signal 11|rank 1 left"):
        late.exchange(b"x", 10)


def test_waiting_for_a_rank_that_dies_ends_at_once(bench):
    one = bench(3)
    a, b, c = [one.client(rank) for rank in range(3)]
    timer = threading.Timer(0.2, c.close)
    timer.start()
    for error in at_once(lambda: a.exchange(b"", 30), lambda: b.exchange(b"", 30)):
        assert isinstance(error, PeerLostError) and error.peer == 2
    timer.join()


def test_fileno_becomes_readable_for_a_notice(bench):
    import select

    one = bench(2)
    a, b = one.client(0), one.client(1)
    poll = select.poll()
    poll.register(a.fileno(), select.POLLIN)
    assert poll.poll(0) == []
    b.leave()
    assert poll.poll(10_000)
    assert wait_notices(a)[0][:2] == (1, "left")
    assert not os.get_inheritable(a.fileno())


def test_end_of_the_launcher(bench):
    one = bench(2)
    a, b = one.client(0), one.client(1)
    waiting = threading.Timer(0.2, one.stop)
    waiting.start()
    with pytest.raises(BootstrapError, match="launcher .* is gone"):
        a.exchange(b"x", 30)
    waiting.join()
    assert [found[:2] for found in wait_notices(b)] == [(-1, "launcher")]
    assert b.notices() == [] and b.fileno() == -1
    with pytest.raises(BootstrapError, match="is gone"):
        b.exchange(b"x")
    b.abort(1, "nobody hears it")
    b.leave()


def test_abort_reaches_the_launcher(bench):
    one = bench(2)
    one.client(1).abort(7, "no\x1b[31m\nway")
    end = time.monotonic() + 10
    while not one.aborts and time.monotonic() < end:
        time.sleep(0.01)
    assert one.aborts == [(1, 7, r"no\x1b[31m\nway")]


def test_alone_has_the_same_methods():
    alone = bootstrap.Client.connect(env.detect({}), 1)
    public = {name for name in dir(bootstrap.Client) if not name.startswith("_")} - {"connect"}
    assert public <= set(dir(alone))
    assert alone.exchange(b"x") == [b"x"]
    assert alone.notices() == [] and alone.fileno() == -1
    alone.abort(1)
    alone.leave()
