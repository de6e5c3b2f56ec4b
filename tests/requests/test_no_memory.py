"""A received object that does not fit into memory: its receiver learns it, its sender is let go."""

import pytest

HEAD = """
import resource
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
SIZE = 60_000_000
WHAT = {"array": lambda: np.ones(SIZE, "u1"), "bytes": lambda: bytes(SIZE),
        "bytearray": lambda: bytearray(SIZE), "stream": lambda: "x" * SIZE,
        "second": lambda: [np.ones(1_000_000, "u1"), np.ones(SIZE, "u1"), np.ones(70_000, "u1")]}

def limited(call):
    # The error of a call that has 20 MiB of address space to itself.
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (20 << 20), before[1]))
    try:
        call()
    except MemoryError as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    raise AssertionError("no error")
"""

TAKERS = {
    "recv": "comm.recv(source=0, tag=1)",
    "any": "comm.recv()",
    "irecv": "comm.irecv(source=0, tag=1).wait()",
    "several": "MPI.Request.waitall([comm.irecv(source=0, tag=1), comm.irecv(source=0, tag=4)])",
    "mrecv": "comm.mprobe(source=0, tag=1).recv()",
    "duplicate": "twin.recv(source=0, tag=1)",
}


@pytest.mark.parametrize("what", ["array", "bytes", "bytearray", "stream", "second"])
def test_every_kind_of_object(jobs, what):
    """The sender's request ends, the receiver gets MemoryError, and the next message passes."""
    outcome = jobs.run(HEAD + f"""
if comm.rank == 0:
    comm.isend(WHAT[{what!r}](), 1, 1).wait()
    comm.ssend("after", 1, 2)
else:
    error = limited(lambda: comm.recv(source=0, tag=1))
    assert isinstance(error, MPI.Exception) and "rank 0" in str(error), error
    assert "RLIMIT_AS" in str(error) and " bytes" in str(error), error
    assert comm.recv(source=0, tag=2) == "after"
    counters = MPI.counters()
    assert counters["posted"] == 0 and counters["messages_in_use"] == 0, counters
    print("told")
""", 2)
    assert outcome.ok().out == "told\n"


@pytest.mark.parametrize("taker", TAKERS)
def test_every_call_that_receives(jobs, taker):
    """Whichever call takes the object, in a world of three and on another communicator as well."""
    outcome = jobs.run(HEAD + f"""
twin = comm.Dup()
carrier = twin if {taker!r} == "duplicate" else comm
if comm.rank == 0:
    carrier.isend(WHAT["array"](), 1, 1).wait()
    comm.send("beside", 1, 4)
    comm.ssend("after", 1, 2)
elif comm.rank == 1:
    limited(lambda: {TAKERS[taker]})
    assert comm.recv(source=0, tag=2) == "after"
    print("told")
comm.Barrier()
""", 3)
    assert outcome.ok().out == "told\n"


def test_an_object_sent_to_oneself(jobs):
    """The same without any peer: `isend` and `recv` on one rank."""
    outcome = jobs.alone(HEAD + """
sent = comm.isend(WHAT["array"](), 0, 1)
limited(lambda: comm.recv(source=0, tag=1))
sent.wait()
comm.isend("after", 0, 2)
assert comm.recv(source=0, tag=2) == "after"
print("told")
""")
    assert outcome.ok().out == "told\n"


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_object_of_many_parts_is_sent_whole_or_not_at_all(jobs, ranks):
    """Whatever is refused to its sender, no receiver gets a head whose parts never come."""
    outcome = jobs.run("""
import resource
import numpy as np
from pyrdv import MPI
from pyrdv.api import objects
from pyrdv.api.object_messages import isend_pickled
comm = MPI.COMM_WORLD
last = comm.size - 1
comm.Barrier()      # the connection needs memory of its own
MPI.pickle.THRESHOLD = 3000
PARTS = 600
whole = refused = 0

def limited(extra, call):
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + extra, before[1]))
    try:
        return call()
    except MemoryError:
        return None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)

def take():
    got = comm.recv(source=0, tag=1)
    assert got is None or [part[0] for part in got] == [i % 256 for i in range(PARTS)]
    return got is not None

if comm.rank == 0:
    kept = []
    head, parts = objects.dumps([np.full(3000, i % 256, 'u1') for i in range(PARTS)])
    assert len(parts) == PARTS
    for extra in range(0, 1 << 21, 1 << 15):
        request = limited(extra, lambda: isend_pickled(comm, head, parts, last, 1))
        if request is None:
            refused += 1
        else:
            whole += 1
            if comm.size == 1:
                assert take()
            request.wait()
        # What was made for it is not free for the next.
        kept.append([comm.irecv(source=0, tag=2) for _ in range(700)])
    end = comm.isend(None, last, 1)
    assert refused and whole, (refused, whole)
if comm.rank == last:
    while take():
        pass
    print("whole")
if comm.rank == 0:
    end.wait()
""", ranks)
    assert outcome.ok().out == "whole\n"


@pytest.mark.parametrize("leave", ["limited(lambda: comm.recv(source=0, tag=1))",
                                   "limited(lambda: comm.mprobe(source=0, tag=1).recv())",
                                   "comm.mprobe(source=0, tag=1)",
                                   "raised(lambda: comm.Recv(bytearray(7), 0, 1))"])
def test_the_world_ends_before_the_parts_were_announced(jobs, leave):
    """The receiver of a refused object waits in Finalize for a sender that computes meanwhile."""
    outcome = jobs.run(HEAD + f"""
import time

def raised(call):
    try:
        call()
    except MPI.Exception:
        return
    raise AssertionError("no error")

if comm.rank == 0:
    parts = [np.ones(100_000, "u1") for _ in range(600)]
    comm.recv(source=1)
    sent = comm.isend(parts, 1, 1)
    time.sleep(1)
    sent.wait()
    print("sent")
else:
    comm.send("ready", 0)
    {leave}
""", 2)
    assert outcome.ok().out == "sent\n"
    assert outcome.err == "", outcome
