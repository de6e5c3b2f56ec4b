"""What a rank lacks for a connection, noticed after the start, is that rank's error (R04, X06).

No peer is called dead for it, and with the limit raised the next send works.
"""

import pytest

pytestmark = pytest.mark.verbs

SHORTAGES = {
    "locked memory": ('limited("RLIMIT_MEMLOCK", 4096)',
                      ("pinned", "RLIMIT_MEMLOCK is 4096 bytes", "ulimit -l")),
    "address space": ('limited("RLIMIT_AS", 4096)',
                      ("Cannot allocate memory", "RLIMIT_AS is 4096 bytes", "ulimit -v")),
    "queue pairs": ('without("ibv_create_qp")', ("queue pair", "device allows")),
    "completion queues": ('without("ibv_create_cq")', ("completion queue", "device allows")),
}


@pytest.mark.parametrize("what", SHORTAGES)
def test_a_connection_that_cannot_be_made(poor, what):
    """The sender raises ResourceError, and nothing of its message is sent; later a send works."""
    shortage, parts = SHORTAGES[what]
    outcome = poor(f"""
if comm.rank == 0:
    with {shortage}:
        texts = [refused(lambda: comm.Send(np.ones(9), 1)), refused(lambda: comm.send("no", 1))]
    for text in texts:
        assert "rank 0 cannot connect to rank 1" in text, text
        for part in {parts!r}:
            assert part in text, (part, text)
    data = np.arange(500_000.0)
    comm.Send(data, 1)
    comm.send("object", 1)
    print(comm.recv(source=1))
else:
    room = np.zeros(500_000)
    comm.Recv(room, 0)
    assert (room == np.arange(500_000.0)).all()
    assert comm.recv(source=0) == "object"
    comm.send("passed", 0)
""", 2)
    assert outcome.ok().out == "passed\n"


BOTH = {
    "sendrecv": "got = comm.sendrecv('mine', 1, 1, None, 2, 2)",
    "Sendrecv": "comm.Sendrecv(mine, 1, 1, room, 2, 2); got = bytes(room).decode()",
    "Sendrecv_replace": "comm.Sendrecv_replace(room, 1, 1, 2, 2); got = bytes(room).decode()",
}
EXCHANGE = """
mine, word = bytearray(b"mine"), bytearray(b"word")
room = bytearray(mine)
if comm.rank == 0:
    {body}
    comm.send("end", 1, 3)
    comm.send("end", 2, 3)
    assert not comm.Iprobe()
    print("passed")
elif comm.rank == 1:
    got = comm.recv(source=0, tag=1) if {objects} else comm.Recv(room, 0, 1) or room.decode()
    assert got == "mine", got
    assert comm.recv(source=0, tag=3) == "end" and not comm.Iprobe()
else:
    comm.send("word", 0, 2) if {objects} else comm.Send(word, 0, 2)
    assert comm.recv(source=0, tag=3) == "end"
"""


@pytest.mark.parametrize("call", BOTH)
@pytest.mark.parametrize("what", ["locked memory", "queue pairs"])
def test_a_call_that_sends_and_receives(poor, what, call):
    """What its send lacks shows before it takes the message that is here; then it works."""
    shortage, parts = SHORTAGES[what]
    outcome = poor(EXCHANGE.format(objects=call == "sendrecv", body=f"""
    def once():
        {BOTH[call]}
        return got
    comm.Probe(2, 2)
    with {shortage}:
        texts = [refused(once), refused(once)]
    for text in texts:
        assert "rank 0 cannot connect to rank 1" in text, text
        for part in {parts!r}:
            assert part in text, (part, text)
    assert room == mine and comm.Iprobe(2, 2)
    assert once() == "word"
"""), 3)
    assert outcome.ok().out == "passed\n"


@pytest.mark.parametrize("call", BOTH)
def test_a_call_that_has_received_before_its_send_lacks_something(poor, call):
    """A connection that takes longer than the call waits for it: its message is not lost."""
    again = "send('mine', 1, 1)" if call == "sendrecv" else "Send(mine, 1, 1)"
    outcome = poor(EXCHANGE.format(objects=call == "sendrecv", body=f"""
    import signal
    from pyrdv.api import p2p
    p2p.wait_until = lambda *wait: None
    comm.Probe(2, 2)
    # The connection is under way until the call waits for its send: signals are looked at there.
    slow = without("rdma_get_cm_event")
    signal.signal(signal.SIGALRM, lambda *signal: slow.__exit__(None, None, None))
    with without("ibv_create_qp"):
        slow.__enter__()
        signal.setitimer(signal.ITIMER_REAL, 1)
        try:
            {BOTH[call]}
        except ResourceError as error:
            got = error.received
    assert (got if isinstance(got, str) else bytes(got).decode()) == "word"
    assert room == (word if {call == "Sendrecv"} else mine)
    comm.{again}
"""), 3)
    assert outcome.ok().out == "passed\n"


CALLS = ("comm.recv(source=1)", "comm.Recv(bytearray(100), 1)", "comm.recv()",
         "comm.irecv(source=1).wait()", "comm.Probe(1)")
TAKEN = [*((what, CALLS[0]) for what in SHORTAGES), *(("locked memory", one) for one in CALLS[1:])]


@pytest.mark.parametrize("what, call", TAKEN)
def test_a_connection_that_cannot_be_taken(poor, what, call):
    """The receiver raises ResourceError; its peer waits, and its message comes later."""
    shortage, parts = SHORTAGES[what]
    outcome = poor(f"""
if comm.rank == 1:
    wait_flag("limited")
    comm.send("word", 0)
    assert comm.recv(source=0) == "answer"
else:
    flag("limited")
    with {shortage}:
        text = refused(lambda: {call})
    assert "rank 0 cannot take the connection of rank 1" in text, text
    for part in {parts!r}:
        assert part in text, (part, text)
    assert comm.recv(source=1) == "word"
    comm.send("answer", 1)
    print("passed")
""", 2)
    assert outcome.ok().out == "passed\n"


@pytest.mark.parametrize("what", SHORTAGES)
def test_who_has_to_connect_instead_lacks_something(poor, cable, what):
    """N02: the end with the smaller MTU must connect, and cannot: its receive says so."""
    shortage, parts = SHORTAGES[what]
    cable.set_mtu(1500, (0,))
    outcome = poor(f"""
if comm.rank == 1:
    wait_flag("limited")
    comm.send("word", 0)
    assert comm.recv(source=0) == "answer"
else:
    flag("limited")
    with {shortage}:
        for call in (lambda: comm.recv(source=1), comm.recv, lambda: comm.Probe(1)):
            text = refused(call)
            assert "rank 0 cannot take the connection of rank 1" in text, text
            for part in {parts!r}:
                assert part in text, (part, text)
    assert comm.recv(source=1) == "word"
    comm.send("answer", 1)
    print("passed")
""", 2)
    assert outcome.ok().out == "passed\n"


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("small", [(), (0,)], ids=["equal", "smaller"])
def test_a_start_with_a_rank_that_lacks_something(poor, jobs, cable, small, rank):
    """All connections at start: the job ends at once, and the rank that lacks it says what."""
    cable.set_mtu(1500, small)
    (jobs.folder / f"no-ibv_create_qp-{rank}").mkdir()
    outcome = poor("", 2, "--grace", "20", env={"PYRDV_CONNECT": "start"})
    assert outcome.status == 1, outcome
    assert f"rank {rank} cannot connect to all ranks at start: rank {rank} cannot" in outcome.err
    assert "no queue pair is left here" in outcome.err, outcome


def test_the_peer_of_a_poor_rank_waits(poor):
    """Longer than the patience for one that says nothing (12 peer timeouts), for it says why."""
    outcome = poor("""
if comm.rank == 1:
    wait_flag("limited")
    comm.send("word", 0)
else:
    flag("limited")
    with limited("RLIMIT_MEMLOCK", 4096):
        end = time.monotonic() + 7
        while time.monotonic() < end:
            time.sleep(0.2)
            assert "cannot take the connection of rank 1" in refused(lambda: comm.recv(source=1))
    print(comm.recv(source=1))
""", 2, env={"PYRDV_PEER_TIMEOUT": "0.5"})
    assert outcome.ok().out == "word\n"


def test_others_are_not_disturbed(poor):
    """Ranks that are connected go on, whatever the shortage; on three ranks."""
    outcome = poor("""
for peer in (0, 1):
    if comm.rank in (0, 1) and peer != comm.rank:
        assert comm.sendrecv(comm.rank, peer, 1, None, peer, 1) == peer
if comm.rank == 0:
    flag("limited")
    with limited("RLIMIT_MEMLOCK", 4096):
        assert "rank 0 cannot connect to rank 2" in refused(lambda: comm.send("x", 2))
        for number in range(50):
            comm.send(number, 1, 2)
            assert comm.recv(source=1, tag=2) == number
        assert "cannot take the connection of rank 2" in refused(lambda: comm.recv(source=2))
    assert comm.recv(source=2) == "late"
    comm.send("x", 2)
    print("passed")
elif comm.rank == 1:
    for number in range(50):
        comm.send(comm.recv(source=0, tag=2), 0, 2)
else:
    wait_flag("limited")
    comm.send("late", 0)
    assert comm.recv(source=0) == "x"
""", 3)
    assert outcome.ok().out == "passed\n"


def test_both_lack(poor):
    """Two ranks that want each other and both have nothing left: each says so, then both go on."""
    outcome = poor("""
other = 1 - comm.rank
with limited("RLIMIT_MEMLOCK", 4096):
    flag(f"limited {comm.rank}")
    wait_flag(f"limited {other}")
    request = comm.irecv(source=other)
    assert f"connect to rank {other}" in refused(lambda: comm.send("no", other))
    flag(f"refused {comm.rank}")
    wait_flag(f"refused {other}")
for number in range(20):
    comm.send(number, other)
    assert request.wait() == number
    request = comm.irecv(source=other)
comm.send("last", other)
print(request.wait())
""", 2)
    assert outcome.ok().lines == ["last"] * 2


@pytest.mark.parametrize("what", ["locked memory", "queue pairs"])
def test_peers_are_told_what_a_rank_says(poor, what):
    """Who ends with the error says so; the error of its peer repeats that."""
    shortage, parts = SHORTAGES[what]
    outcome = poor(f"""
if comm.rank == 0:
    flag("limited")
    with {shortage}:
        comm.recv(source=1)
wait_flag("limited")
try:
    comm.send("x", 0)
    comm.recv(source=0)
except PeerLostError as error:
    text = str(error)
    assert "rank 0" in text and "{parts[0]}" in text, text
    print("told")
""", 2, "--grace", "20")
    assert outcome.status == 1 and "ResourceError: rank 0 cannot take" in outcome.err, outcome
    assert outcome.out == "told\n", outcome


def test_the_end_names_what_a_send_lacks(poor):
    """Finalize does not wait for a connection that cannot be made: it raises and ends the world."""
    outcome = poor("""
if comm.rank == 0:
    os.mkdir("no-ibv_create_qp-0")
    request = comm.Isend(np.ones(9), 1)
    text = refused(MPI.Finalize)
    assert "rank 0 cannot connect to rank 1" in text and "queue pair" in text, text
    print("named", flush=True)
else:
    try:
        comm.Recv(np.ones(9), 0)
    except PeerLostError as error:
        assert "queue pair" in str(error), error
        print("told", flush=True)
""", 2, "--keep-going")
    assert sorted(outcome.out.split()) == ["named", "told"], outcome
