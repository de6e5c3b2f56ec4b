"""Started by MPICH's Hydra, whose `mpiexec` comes from the package mpich, and by a fake manager."""

import os
import shutil
import socket
import sys
import threading
from pathlib import Path

import pytest

from pyrdv.errors import BootstrapError
from pyrdv.launch import env, pmi
from tests.support.absent import absent
from tests.support.jobs import Jobs

HELLO = """
    import os
    from pyrdv import MPI
    world = MPI.COMM_WORLD
    assert "PMI_FD" not in os.environ and "PMI_PORT" not in os.environ
    got = world.sendrecv(b"x" * 300_000, (world.rank + 1) % world.size,
                         source=(world.rank - 1) % world.size)
    assert len(got) == 300_000
    print(world.rank, world.size, world.allreduce(world.rank), flush=True)
"""


@pytest.fixture
def hydra(tmp_path):
    """Runs a program under ``mpiexec``; returns its `Outcome`."""
    found = Path(sys.executable).parent / "mpiexec.hydra"
    mpiexec = str(found) if found.exists() else shutil.which("mpiexec.hydra")
    if mpiexec is None:
        absent("mpiexec.hydra is not there; the package mpich has it")
    jobs = Jobs(tmp_path)

    def run(source, ranks, *options, before=()):
        words = [mpiexec, "-n", str(ranks), *options, *before, sys.executable, jobs.write(source)]
        outcome = jobs.finish(jobs.execute(words))
        jobs.check_clean()
        return outcome

    yield run
    jobs.close()


@pytest.mark.parametrize("options", [(), ("-pmi-port",)])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_hello(hydra, ranks, options):
    total = sum(range(ranks))
    assert hydra(HELLO, ranks, *options).ok().lines == [
        f"{rank} {ranks} {total}" for rank in range(ranks)]


def test_behind_a_shell(hydra):
    assert len(hydra(HELLO, 2, before=("sh", "-c", '"$@"; true', "sh")).ok().lines) == 2


def test_children_are_single(hydra):
    outcome = hydra("""
        import subprocess, sys
        from pyrdv import MPI
        size = "from pyrdv import MPI; print(MPI.COMM_WORLD.size)"
        done = subprocess.run([sys.executable, "-c", size], capture_output=True, text=True)
        print(MPI.COMM_WORLD.size, done.stdout.strip(), done.stderr, flush=True)
    """, 2)
    assert outcome.ok().lines == ["2 1 ", "2 1 "]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_abort_ends_all(hydra, ranks):
    outcome = hydra("""
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        if world.rank == world.size - 1:
            world.Abort(7)
        world.recv(source=world.size - 1)
    """, ranks)
    assert outcome.status == 7, outcome
    assert f"rank {ranks - 1} called Abort(7)" in outcome.err


@pytest.mark.parametrize("end, statuses", [
    ("raise ValueError('my last words')", {1}), ("os._exit(3)", {3, 9}),
    ("os.kill(os.getpid(), 9)", {9})])
def test_death_ends_all(hydra, end, statuses):
    """The others wait for the dead one, so that they end only if they are ended.

    Of a process that ends without a word Hydra may learn first that its socket closed. Then it
    kills all, and their signal is the status.
    """
    outcome = hydra(f"""
        import os
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        if world.rank == 1:
            print("unfinished", end="")
            {end}
        try:
            world.recv(source=1)
        except MPI.Exception:
            while True:
                os.read(os.pipe()[0], 1)
    """, 3)
    assert outcome.status in statuses, outcome
    if "raise" in end:
        assert "my last words" in outcome.err and "unfinished" in outcome.out


def test_status_of_an_orderly_end(hydra):
    outcome = hydra("""
        import sys
        from pyrdv import MPI
        MPI.COMM_WORLD.Barrier()
        sys.exit(5 if MPI.COMM_WORLD.rank == 1 else 0)
    """, 2)
    assert outcome.status == 5, outcome


# --------------------------------------------------------------------- a fake manager


class Manager:
    """Answers as it is told, and notes what it was asked."""

    def __init__(self, answers=None, vallen=1024, size=1, cut=False):
        self.answers = answers or {}
        self.vallen = vallen
        self.cut = cut      # an answer that was given is the last, and has no line end
        self.store = {}
        self.asked = []
        self.ours, theirs = socket.socketpair()
        # As many as a launcher hands over: a number, no object.
        self.launch = env.detect({"PMI_FD": str(theirs.detach()), "PMI_RANK": "0",
                                  "PMI_SIZE": str(size)})
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with self.ours, self.ours.makefile("rb") as lines:
            for line in lines:
                self.asked.append(line.decode().strip())
                reply = self.reply(dict(word.partition("=")[::2] for word in line.decode().split()))
                if reply is None:
                    return
                if self.cut and reply in self.answers.values():
                    self.ours.sendall(reply.encode())
                    return
                self.ours.sendall(reply.encode() + b"\n")

    def reply(self, fields):
        name = fields["cmd"]
        if name in self.answers:
            return self.answers[name]
        if name == "put":
            assert len(fields["value"]) <= pmi.PIECE
            self.store[fields["key"]] = fields["value"]
        return {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": f"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={self.vallen}",
            "get_my_kvsname": "cmd=my_kvsname kvsname=kvs_1",
            "put": "cmd=put_result rc=0 msg=success",
            "get": f"cmd=get_result rc=0 value={self.store.get(fields.get('key'), '')}",
            "barrier_in": "cmd=barrier_out rc=0",
            "finalize": "cmd=finalize_ack rc=0",
        }.get(name)


@pytest.mark.parametrize("vallen", [1024, 64, 1 << 20])
@pytest.mark.parametrize("nbytes", [0, 1, 200, 5000])
def test_values_travel_in_short_pieces(nbytes, vallen):
    """P1: whatever the manager would take."""
    manager = Manager(vallen=vallen)
    client = pmi.Client.connect(manager.launch, 10)
    value = os.urandom(nbytes)
    assert client.exchange(value) == [value]
    assert client.exchange(value[::-1]) == [value[::-1]]
    puts = [line for line in manager.asked if line.startswith("cmd=put")]
    assert max(len(line) for line in puts) < 512
    assert all(len(line.rpartition("value=")[2]) < vallen for line in puts)
    # P2: no key twice.
    assert len({line.split()[2] for line in puts}) == len(puts)
    client.leave()
    assert manager.asked[-1] == "cmd=finalize"


@pytest.mark.parametrize("answers", [
    {"init": "cmd=response_to_init rc=-1"}, {"get_maxes": "cmd=unknown"},
    {"get_my_kvsname": "rubbish"}, {"put": "cmd=put_result rc=-1"},
    {"get": "cmd=get_result rc=-1"}, {"barrier_in": "cmd=barrier_out rc=9"},
    {"get": "cmd=get_result rc=0 value=nonsense"}, {"get": "cmd=get_result rc=0"},
    {"get_maxes": "cmd=maxes"}, {"get_maxes": "cmd=maxes vallen_max=many"},
    {"get_maxes": "cmd=maxes vallen_max=-5"}, {"get_maxes": "cmd=maxes vallen_max=3"},
    {"get_maxes": "cmd=maxes vallen_max=\u0663\u0664"}, {"get_my_kvsname": "cmd=my_kvsname"},
    {"get": "cmd=get_result rc=0 value=1.a"}, {"get": "cmd=get_result rc=0 value=1.****"},
    {"get": "cmd=get_result rc=0 value=1.\u00e9abc"}, {"get": "cmd=get_result rc=0 value=0."},
    {"get": "cmd=get_result rc=0 value=9999999999."}, {"get": "cmd=get_result value=\u0661.YQ"},
    {"init": ""}, {"init": "\x1b[2J \x07"}])
def test_wrong_answers_are_told(answers):
    """P4: one error, with the line, in characters that can be printed."""
    with pytest.raises(BootstrapError, match="process manager answered '") as caught:
        pmi.Client.connect(Manager(answers).launch, 10).exchange(b"x")
    assert str(caught.value).isprintable() and "PMI-1" in str(caught.value)
    line, = answers.values()
    assert line in str(caught.value) or not line.isprintable()


def test_lines_that_have_no_end_or_are_cut():
    with pytest.raises(BootstrapError, match="without an end: 'xxx"):
        pmi.Client.connect(Manager({"init": "x" * 100_000}, cut=True).launch, 10)
    with pytest.raises(BootstrapError, match="closed the connection behind 'cmd=maxes val'"):
        pmi.Client.connect(Manager({"get_maxes": "cmd=maxes val"}, cut=True).launch, 10)


@pytest.mark.parametrize("told, why", [
    (b"", "closed"), (b"x" * 9000, "size is missing"), (b"\n" * 4, "size is missing"),
    (b"cmd=initack rc=0\ncmd=set size=2\ncmd=set rank=2\ncmd=set debug=0\n", "rank is no whole"),
    (b"cmd=initack rc=0\ncmd=set size=-1\ncmd=set rank=0\ncmd=set \xff\n", "size is no whole")])
def test_greetings_that_are_wrong(told, why):
    listener = socket.create_server(("127.0.0.1", 0))

    def greet():
        try:
            while True:
                one, _ = listener.accept()
                with one:
                    one.sendall(told)
                    one.recv(100)
        except OSError:
            pass  # the test is over

    thread = threading.Thread(target=greet, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    with pytest.raises(BootstrapError, match=f"speak PMI-1: .*({why}|reset)"):
        pmi.Client.connect(env.detect({"PMI_PORT": f"127.0.0.1:{port}", "PMI_ID": "0"}), 0.3)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


@pytest.mark.parametrize("silent", ["init", "barrier_in", "get"])
def test_manager_that_goes_away(silent):
    with pytest.raises(BootstrapError, match="gone"):
        pmi.Client.connect(Manager({silent: None}).launch, 10).exchange(b"x")


def test_manager_that_says_nothing():
    ours, theirs = socket.socketpair()
    launch = env.detect({"PMI_FD": str(theirs.detach()), "PMI_RANK": "0", "PMI_SIZE": "2"})
    with ours, pytest.raises(BootstrapError, match="PYRDV_TIMEOUT_START"):
        pmi.Client.connect(launch, 0.2)


def test_failure_is_told_as_abort():
    manager = Manager()
    client = pmi.Client.connect(manager.launch, 10)
    client.leave(3)
    client.leave(0)
    client.close()
    client._sock.close()
    manager.thread.join(10)
    assert manager.asked[-1] == "cmd=abort exitcode=3"


def test_variables_without_a_socket_start_nothing():
    """A child that inherited the variables but not the socket is no rank."""
    with pytest.warns(UserWarning, match="1 of 2"):
        assert env.detect({"PMI_FD": "999", "PMI_RANK": "1", "PMI_SIZE": "2"}).size == 1
    with open(os.devnull) as file, pytest.warns(UserWarning, match="1 of 2"):
        assert env.detect({"PMI_FD": str(file.fileno()), "PMI_RANK": "1",
                           "PMI_SIZE": "2"}).size == 1
