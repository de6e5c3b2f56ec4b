"""What the system refuses to one rank is that rank's error; no peer is called dead for it."""

import pytest

from tests.support.seccomp import DENY

HEAD = """
import os, resource, sys, time
import numpy as np
from pyrdv import MPI
from pyrdv.errors import PeerLostError, ResourceError
comm = MPI.COMM_WORLD
other = 1 - comm.rank

def limited(name, value):
    before = resource.getrlimit(getattr(resource, name))
    resource.setrlimit(getattr(resource, name), (value, before[1]))
    return before

def refused(call):
    # The ResourceError of a call.
    try:
        call()
    except ResourceError as error:
        return str(error)
    raise AssertionError("no error")

def files_in_use():
    # The least limit under which no file can be opened: descriptors are given from the lowest.
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    return fd

def flag(name):
    os.mkdir(name)      # needs no descriptor

def wait_flag(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""

LIMITS = {
    "descriptors": ("RLIMIT_NOFILE", "files_in_use()",
                    ("Too many open files", "RLIMIT_NOFILE is", "ulimit -n")),
    "file size": ("RLIMIT_FSIZE", "4096", ("File too large", "RLIMIT_FSIZE is 4096", "ulimit -f")),
    "address space": ("RLIMIT_AS", "4096",
                      ("Cannot allocate memory", "RLIMIT_AS is 4096", "ulimit -v")),
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_connection_that_cannot_be_made(jobs, what):
    """The sender raises ResourceError; with the limit gone, the same send works."""
    name, value, parts = LIMITS[what]
    outcome = jobs.run(HEAD + f"""
if comm.rank == 0:
    data = bytes(2000)
    before = limited({name!r}, {value})
    try:
        texts = [refused(lambda: comm.Send(data, 1)), refused(lambda: comm.Isend(data, 1))]
    finally:
        resource.setrlimit(resource.{name}, before)
    for text in texts:
        assert "rank 0 cannot connect to rank 1" in text, text
        for part in {parts!r}:
            assert part in text, (part, text)
    comm.Send(data, 1)
    comm.send("object", 1)
    print(comm.recv(source=1))
else:
    comm.Recv(bytearray(2000), 0)
    assert comm.recv(source=0) == "object"
    comm.send("passed", 0)
""", 2)
    assert outcome.ok().out == "passed\n"


TAKEN = {
    "recv": "comm.recv(source=1)",
    "Recv": "comm.Recv(bytearray(100), 1)",
    "any": "comm.recv()",
    "wait": "comm.irecv(source=1).wait()",
    "probe": "comm.Probe(1)",
    "iprobe": "while_false(lambda: comm.iprobe(source=1))",
    "test": "while_false(comm.irecv(source=1).test)",
    "waitany": "MPI.Request.waitany([comm.irecv(source=1), comm.irecv(source=1, tag=3)])",
}
TAKER = HEAD + """
def while_false(call):
    while call() in (False, (False, None)):
        pass
if comm.rank == 1:
    wait_flag("limited")
    comm.send("word", 0)
    assert comm.recv(source=0) == "answer"
else:
    {take}
    assert "rank 0 cannot take the connection of rank 1" in text, text
    assert "RLIMIT_NOFILE is" in text, text
    assert comm.recv(source=1) == "word"
    comm.send("answer", 1)
    print("passed")
"""


@pytest.mark.parametrize("call", TAKEN)
def test_a_connection_that_cannot_be_taken(jobs, call):
    """The receiver raises ResourceError in any call that waits; later the message comes."""
    take = f"""
    before = limited("RLIMIT_NOFILE", files_in_use())
    flag("limited")
    text = refused(lambda: {TAKEN[call]})
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
"""
    outcome = jobs.run(TAKER.replace("{take}", take), 2)
    assert outcome.ok().out == "passed\n"


def test_a_connection_that_cannot_be_taken_while_awaiting(jobs):
    """The same for ``await``; the event loop has its descriptors before."""
    take = """
    import asyncio
    import pyrdv.progress.loop
    request = comm.irecv(source=1)
    async def main():
        # The loop has its own descriptors before.
        loop = asyncio.get_running_loop()
        watcher = pyrdv.progress.loop.watcher(MPI._world.engine, loop)
        before = limited("RLIMIT_NOFILE", files_in_use())
        flag("limited")
        try:
            await request
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    text = refused(lambda: asyncio.run(main()))
"""
    # The request is under way all the time: it has the message.
    program = TAKER.replace("{take}", take).replace("comm.recv(source=1)", "request.wait()")
    assert jobs.run(program, 2).ok().out == "passed\n"


BOTH = {
    "sendrecv": "assert comm.sendrecv('mine', 1, 1, None, 2, 2) == 'word'",
    "Sendrecv": "comm.Sendrecv(mine, 1, 1, room, 2, 2); assert room == word",
    "Sendrecv_replace": "comm.Sendrecv_replace(room, 1, 1, 2, 2); assert room == word",
    "Isendrecv": "comm.Isendrecv(mine, 1, 1, room, 2, 2).Wait(); assert room == word",
    "Isendrecv_replace": "comm.Isendrecv_replace(room, 1, 1, 2, 2).Wait(); assert room == word",
    "Startall": "MPI.Prequest.Startall(made); MPI.Request.Waitall(made); assert room == word",
}
EXCHANGE = HEAD + """
mine, word = bytearray(b"mine"), bytearray(b"word")
room = bytearray(mine)

def once(call):
    exec(call)
    room[:] = mine

def held():
    MPI._world.engine.reap()
    return [MPI.counters()[name] for name in ("posted", "ops_in_use", "regions_in_use")]
"""


@pytest.mark.parametrize("call", BOTH)
def test_a_call_that_sends_and_receives(jobs, call):
    """What its send lacks is said before it takes the message that is here; then it works."""
    objects = call == "sendrecv"
    outcome = jobs.run(EXCHANGE + f"""
if comm.rank == 0:
    made = [comm.Recv_init(room, 2, 2), comm.Send_init(mine, 1, 1)]
    comm.Probe(2, 2)
    before = limited("RLIMIT_NOFILE", files_in_use())
    try:
        texts = [refused(lambda: once({BOTH[call]!r})) for _ in range(2)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for text in texts:
        assert "rank 0 cannot connect to rank 1" in text and "RLIMIT_NOFILE is" in text, text
    assert room == mine and held() == [0, 0, 0], (room, held())
    assert comm.Iprobe(2, 2)
    once({BOTH[call]!r})
    assert not comm.Iprobe()
    comm.send("end", 1, 3)
    print("passed")
elif comm.rank == 1:
    if {objects}:
        assert comm.recv(source=0, tag=1) == "mine"
    else:
        comm.Recv(room, 0, 1)
        assert room == mine
    assert comm.recv(source=0, tag=3) == "end" and not comm.Iprobe()
elif {objects}:
    comm.send("word", 0, 2)
else:
    comm.Send(word, 0, 2)
""", 3)
    assert outcome.ok().out == "passed\n"


@pytest.mark.parametrize("call", ["sendrecv", "Sendrecv_replace"])
def test_a_call_whose_receive_lacks_something(jobs, call):
    """Its send waits behind others, so it is taken back: the receiver gets it once."""
    call = BOTH[call].replace(" 1, 1,", " 2, 1,").replace(" 2, 2)", " 1, 2)")
    objects = "None" in call
    outcome = jobs.run(EXCHANGE + f"""
if comm.rank == 0:
    assert comm.recv(source=2) == "here"
    kept = [comm.Isend(bytes(1000), 2, 9) for _ in range(3000)]
    before = limited("RLIMIT_NOFILE", files_in_use())
    flag("limited")
    try:
        texts = [refused(lambda: once({call!r})) for _ in range(2)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for text in texts:
        assert "rank 0 cannot take the connection of rank 1" in text, text
    assert room == mine
    flag("free")
    once({call!r})
    comm.send("end", 2, 3)
    MPI.Request.Waitall(kept)
    print("passed")
elif comm.rank == 1:
    wait_flag("limited")
    if {objects}:
        comm.send("word", 0, 2)
    else:
        comm.Send(word, 0, 2)
else:
    comm.send("here", 0)
    wait_flag("free")
    for _ in range(3000):
        comm.Recv(bytearray(1000), 0, 9)
    if {objects}:
        assert comm.recv(source=0, tag=1) == "mine"
    else:
        comm.Recv(room, 0, 1)
        assert room == mine
    assert comm.recv(source=0, tag=3) == "end" and not comm.Iprobe()
""", 3)
    assert outcome.ok().out == "passed\n"


def test_persistent_requests_that_were_started_before(jobs):
    """One of a list cannot be started: of the others a receive is taken back, a send had left."""
    outcome = jobs.run(EXCHANGE + """
from pyrdv.errors import RequestError

def wrong(requests):
    try:
        MPI.Prequest.Startall(requests)
    except RequestError as error:
        return str(error)
    raise AssertionError("no error")

if comm.rank == 0:
    send, receive, freed = comm.Send_init(mine, 1), comm.Recv_init(room, 1), comm.Recv_init(room, 1)
    freed.Free()
    assert "null" in wrong([send, receive, freed]) and held() == [0, 0, 0]
    comm.Send(mine, 1)
    assert "is active" in wrong([send, receive, send]) and held() == [0, 0, 0]
    assert "inactive" in repr(receive) and "inactive" not in repr(send)
    send.Wait()
    MPI.Prequest.Startall([send, receive])
    MPI.Request.Waitall([send, receive])
    assert room == word
    print("passed")
else:
    for _ in range(3):
        comm.Recv(room, 0)
    comm.Send(word, 0)
    assert not comm.Iprobe()
""", 2)
    assert outcome.ok().out == "passed\n"


def test_a_request_outlives_the_shortage(jobs):
    """A wait that was refused leaves the request under way, and the next one completes it."""
    outcome = jobs.run(HEAD + """
if comm.rank == 1:
    wait_flag("limited")
    comm.Send(np.arange(10.0), 0)
    comm.Send(np.ones(1 << 20), 0)
else:
    small, large = np.zeros(10), np.zeros(1 << 20)
    requests = [comm.Irecv(small, 1), comm.Irecv(large, 1)]
    flag("limited")
    before = limited("RLIMIT_NOFILE", files_in_use())
    text = refused(requests[0].Wait)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    MPI.Request.Waitall(requests)
    assert (small == np.arange(10)).all() and (large == 1).all()
    print("passed")
""", 2)
    assert outcome.ok().out == "passed\n"


def test_others_are_not_disturbed(jobs):
    """Ranks that are connected go on, whatever the shortage; on three ranks."""
    outcome = jobs.run(HEAD + """
for peer in (0, 1):
    if comm.rank in (0, 1) and peer != comm.rank:
        assert comm.sendrecv(comm.rank, peer, 1, None, peer, 1) == peer
if comm.rank == 0:
    before = limited("RLIMIT_NOFILE", files_in_use())
    flag("limited")
    assert "rank 0 cannot connect to rank 2" in refused(lambda: comm.send("x", 2))
    for number in range(100):
        comm.send(number, 1, 2)
        assert comm.recv(source=1, tag=2) == number
    assert "cannot take the connection of rank 2" in refused(lambda: comm.recv(source=2))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert comm.recv(source=2) == "late"
    comm.send("x", 2)
    flag("over")
    print("passed")
elif comm.rank == 1:
    for number in range(100):
        comm.send(comm.recv(source=0, tag=2), 0, 2)
    # Its end would give descriptors of rank 0 free.
    wait_flag("over")
else:
    wait_flag("limited")
    comm.send("late", 0)
    assert comm.recv(source=0) == "x"
""", 3)
    assert outcome.ok().out == "passed\n"


def test_peers_are_told_what_a_rank_says(jobs):
    """Who ends with the error says so; its peers' errors repeat its words."""
    outcome = jobs.run(HEAD + """
if comm.rank == 0:
    comm.send("first", 1)
    limited("RLIMIT_FSIZE", 4096)
    comm.send("x", 2)
try:
    comm.recv(source=0, tag=9)
except PeerLostError as error:
    text = str(error)
    assert "rank 0 is gone" in text, text
    assert "ResourceError: rank 0 cannot connect to rank 2" in text, text
    assert "RLIMIT_FSIZE is 4096 bytes" in text and "died" not in text, text
    flag(f"told {comm.rank}")
    wait_flag("told 1"), wait_flag("told 2")
""", 3, "--grace", "20")
    assert outcome.status == 1 and outcome.err.count("RLIMIT_FSIZE is 4096") >= 1, outcome
    assert (jobs.folder / "told 1").exists() and (jobs.folder / "told 2").exists(), outcome


def test_words_of_a_peer_cannot_write_lines(jobs):
    """What an exception says travels as one printable line of bounded length."""
    outcome = jobs.run(HEAD + r"""
if comm.rank == 1:
    assert comm.sendrecv(1, 0, 1, None, 0, 1) == 0
    raise ValueError("two\nlines \x1b[31m" + "long " * 1000)
assert comm.sendrecv(0, 1, 1, None, 1, 1) == 1
try:
    comm.recv(source=1)
except PeerLostError as error:
    text = str(error)
    assert "it ended with ValueError: two lines ?[31mlong" in text, text
    assert text.isprintable() and len(text) < 700, text
    print("told")
""", 2)
    assert outcome.out == "told\n", outcome


def test_descriptors_closed_by_the_program(jobs):
    """os.closerange takes pyrdv's descriptors away: the error says that, on that rank."""
    outcome = jobs.run(HEAD + """
if comm.rank == 0:
    assert comm.sendrecv(0, 1, 1, None, 1, 1) == 1
    os.closerange(3, 256)
    text = refused(lambda: comm.recv(source=1, tag=5))
    assert "descriptor" in text and "closed by this program" in text, text
    print("told", flush=True)
    os._exit(0)
assert comm.sendrecv(1, 0, 1, None, 0, 1) == 0
try:
    comm.recv(source=0, tag=7)
except PeerLostError:
    pass
""", 2)
    assert outcome.out == "told\n", outcome


SINGLE = HEAD + DENY + """
if comm.rank == int(sys.argv[2]):
    deny(*sys.argv[3:])
small, large = bytes(100), np.arange(3_000_000)
def exchange():
    for size in (10, 200_000, 3_000_000):
        room = np.zeros(size, large.dtype)
        comm.Sendrecv(large[:size], other, 0, room, other, 0)
        assert (room == large[:size]).all()
        request = comm.Irecv(room, other, 1)
        comm.Barrier()
        comm.Send(large[:size] + 1, other, 1)
        request.Wait()
        assert (room == large[:size] + 1).all()
        assert (comm.sendrecv(large[:size], other, 2, None, other, 2) == large[:size]).all()
"""


@pytest.mark.parametrize("denied", [("process_vm_readv",), ("process_vm_writev",),
                                    ("process_vm_readv", "process_vm_writev")])
@pytest.mark.parametrize("protocol", ["auto", "get"])
def test_single_copy_denied_in_one_direction(jobs, denied, protocol):
    """A filter of system calls denies reading, writing or both on one rank: the cells take over."""
    outcome = jobs.run(SINGLE + """
exchange()
print("passed")
""", 2, args=["", "1", *denied], env={"PYRDV_PROTOCOL": protocol})
    assert outcome.ok().out == "passed\n" * 2


@pytest.mark.parametrize("denied", ["process_vm_readv", "process_vm_writev"])
def test_single_copy_demanded_and_denied(jobs, denied):
    """PYRDV_SINGLE_COPY=on: the rank says which call is denied, and its peer repeats it."""
    outcome = jobs.run(SINGLE + """
if comm.rank == 1:
    text = refused(lambda: comm.Send(large, 0))
    print(text, flush=True)
    comm.Send(large, 0)
try:
    comm.Recv(np.empty(3_000_000, large.dtype), 1)
except PeerLostError as error:
    print(error, flush=True)
""", 2, args=["", "1", denied], env={"PYRDV_SINGLE_COPY": "on"})
    own, told = sorted(outcome.lines, key=lambda line: "is gone" in line)
    assert "rank 1 may not copy from and to rank 0" in own and denied in own, outcome
    assert "PYRDV_SINGLE_COPY" in own and "please report" not in outcome.err, outcome
    assert "rank 1 is gone (it ended with ResourceError" in told and denied in told, outcome
