"""What a rank lacks for a connection, noticed after the start, is that rank's error (R04, X06).

No peer is called dead for it, and with the limit raised the next send works.
"""

import subprocess

import pytest

from tests.verbs.nodes import UNPRIVILEGED

pytestmark = pytest.mark.verbs

USER = (f'exec setpriv --reuid {UNPRIVILEGED} --regid {UNPRIVILEGED} --clear-groups '
        '--bounding-set -all --inh-caps -all "$@"')

HEAD = """
import contextlib, os, resource, time
import numpy as np
from pyrdv import MPI
from pyrdv.errors import PeerLostError, ResourceError
comm = MPI.COMM_WORLD

@contextlib.contextmanager
def limited(name, value):
    which = getattr(resource, name)
    before = resource.getrlimit(which)
    resource.setrlimit(which, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)

@contextlib.contextmanager
def without(call):
    # The device has none left for this rank, as long as the file is there.
    name = f"no-{call}-{comm.rank}"
    os.mkdir(name)
    try:
        yield
    finally:
        os.rmdir(name)

def refused(call):
    # The ResourceError of a call.
    try:
        call()
    except ResourceError as error:
        return str(error)
    raise AssertionError("no error")

def flag(name):
    os.mkdir(name)

def wait_flag(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""

# A library before the others: the calls fail for a rank while a file says so.
STUB = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef void *any(void *, long, void *, void *, int);
static void *real(void *handle, const char *name)
{
    void *(*search)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return search(handle, name);
}
static int refused(const char *name)
{
    char file[100];
    const char *rank = getenv("PYRDV_RANK");
    snprintf(file, sizeof file, "no-%s-%s", name, rank ? rank : "");
    return access(file, F_OK) == 0;
}
#define CALL(name) \\
    void *name(void *a, long b, void *c, void *d, int e) \\
    { \\
        if (refused(#name)) { errno = ENOMEM; return NULL; } \\
        return ((any *)real(dlopen("libibverbs.so.1", RTLD_LAZY), #name))(a, b, c, d, e); \\
    }
CALL(ibv_create_qp)
CALL(ibv_create_cq)
void *dlsym(void *handle, const char *name)
{
    if (!strcmp(name, "ibv_create_qp")) return (void *)ibv_create_qp;
    if (!strcmp(name, "ibv_create_cq")) return (void *)ibv_create_cq;
    return real(handle, name);
}
"""

SHORTAGES = {
    "locked memory": ('limited("RLIMIT_MEMLOCK", 4096)',
                      ("pinned", "RLIMIT_MEMLOCK is 4096 bytes", "ulimit -l")),
    "address space": ('limited("RLIMIT_AS", 4096)',
                      ("Cannot allocate memory", "RLIMIT_AS is 4096 bytes", "ulimit -v")),
    "queue pairs": ('without("ibv_create_qp")', ("queue pair", "device allows")),
    "completion queues": ('without("ibv_create_cq")', ("completion queue", "device allows")),
}


@pytest.fixture
def run(jobs):
    """Run a program on some ranks that are not root, whose device can have nothing left."""
    library = str(jobs.folder / "stub.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, jobs.write(STUB, "stub.c")],
                   check=True)

    def job(program, n, *options, **more):
        return jobs.run(HEAD + program, n, *options, first=f"export LD_PRELOAD={library}; {USER}",
                        limit=60, **more)
    return job


@pytest.mark.parametrize("what", SHORTAGES)
def test_a_connection_that_cannot_be_made(run, what):
    """The sender raises ResourceError, and nothing of its message is sent; later a send works."""
    shortage, parts = SHORTAGES[what]
    outcome = run(f"""
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


CALLS = ("comm.recv(source=1)", "comm.Recv(bytearray(100), 1)", "comm.recv()",
         "comm.irecv(source=1).wait()", "comm.Probe(1)")
TAKEN = [*((what, CALLS[0]) for what in SHORTAGES), *(("locked memory", one) for one in CALLS[1:])]


@pytest.mark.parametrize("what, call", TAKEN)
def test_a_connection_that_cannot_be_taken(run, what, call):
    """The receiver raises ResourceError; its peer waits, and its message comes later."""
    shortage, parts = SHORTAGES[what]
    outcome = run(f"""
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


def test_the_peer_of_a_poor_rank_waits(run):
    """Longer than the patience for one that says nothing (12 peer timeouts), for it says why."""
    outcome = run("""
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


def test_others_are_not_disturbed(run):
    """Ranks that are connected go on, whatever the shortage; on three ranks."""
    outcome = run("""
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


def test_both_lack(run):
    """Two ranks that want each other and both have nothing left: each says so, then both go on."""
    outcome = run("""
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
def test_peers_are_told_what_a_rank_says(run, what):
    """Who ends with the error says so; the error of its peer repeats that."""
    shortage, parts = SHORTAGES[what]
    outcome = run(f"""
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


def test_the_end_names_what_a_send_lacks(run):
    """Finalize does not wait for a connection that cannot be made: it raises and ends the world."""
    outcome = run("""
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
