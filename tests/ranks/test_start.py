"""Starting, importing, children (field cases L05, L09, L11, L12, R03, R12, F03, X03, X07)."""

import os
import sys
import time

import pytest

HELLO = """
from pyrdv import MPI
comm = MPI.COMM_WORLD
print(comm.rank, comm.size, comm.allreduce(comm.rank))
"""


def test_alone(jobs):
    """L05: without a launcher a program is a world of one; rank 1 is a clear error."""
    outcome = jobs.alone("""
from pyrdv import MPI
import numpy as np
comm = MPI.COMM_WORLD
assert (comm.rank, comm.size) == (0, 1)
assert comm.sendrecv("x", 0, 0, None, 0) == "x"
comm.Barrier()
assert comm.bcast([1]) == [1] and comm.allreduce(2) == 2
for call in (lambda: comm.send(1, 1), lambda: comm.Recv(np.empty(1), 1), lambda: comm.bcast(1, 1)):
    try: call()
    except MPI.Exception as error: print(error)
""")
    lines = outcome.ok().out.splitlines()
    assert "pyrdv run" in lines[0] and "pyrdv run" in lines[1] and "root 1" in lines[2]


def test_under_a_foreign_launcher(jobs):
    """L05: another launcher's variables with size > 1 bring a warning, never silence."""
    outcome = jobs.finish(jobs.execute(
        [sys.executable, jobs.write(HELLO)],
        env={"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}))
    assert outcome.status == 0 and outcome.out == "0 1 0\n"
    assert "2 of 4" in outcome.err and "pyrdv run -n 4" in outcome.err


def test_nested(jobs):
    """L05: `pyrdv run` inside a rank is a job of its own."""
    inner = jobs.write(HELLO, "inner.py")
    outcome = jobs.run(f"""
import subprocess, sys
from pyrdv import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    done = subprocess.run([sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "3", {inner!r}],
                          capture_output=True, text=True, timeout=60)
    print(sorted(done.stdout.splitlines()), done.returncode, done.stderr)
comm.Barrier()
""", 2)
    assert outcome.ok().out == "['0 3 3', '1 3 3', '2 3 3'] 0 \n"


def test_programs_started_by_a_rank(jobs):
    """L09, shrunk to 20: subprocess.run after traffic warns of nothing and inherits nothing."""
    outcome = jobs.run("""
import subprocess, sys
from pyrdv import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
for _ in range(20):
    done = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True, close_fds=False)
    # 0, 1, 2 and the one that ls reads the folder with.
    assert len(done.stdout.split()) == 4 and not done.stderr, done
child = subprocess.run([sys.executable, "-c", "from pyrdv import MPI; "
                        "print(MPI.COMM_WORLD.size)"], capture_output=True, text=True)
assert child.stdout == "1\\n", child
comm.Barrier()
""", 2, env={"PYTHONWARNINGS": "error"})
    outcome.ok()


def test_exec_of_another_program(jobs):
    """L09: a rank that execs a program which ends with 0 is no failure."""
    outcome = jobs.run("""
import os
from pyrdv import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    os.execvp("sh", ["sh", "-c", "echo executed"])
try:
    comm.recv(None, 1)
except MPI.Exception as error:
    assert "rank 1" in str(error)
    print("told")
""", 2)
    assert outcome.ok().lines == ["executed", "told"]


@pytest.mark.parametrize("first", [False, True])
def test_import_in_a_subinterpreter(jobs, first):
    """L11: an ImportError with a text, no crash, whether or not the main one has it already."""
    outcome = jobs.alone(("from pyrdv import MPI\n" if first else "") + """
try:
    import _interpreters as interpreters
    execute = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    execute = interpreters.run_string
other = interpreters.create()
execute(other, '''
try:
    from pyrdv import MPI
except ImportError as error:
    print("ImportError:", error, flush=True)
''')
interpreters.destroy(other)
""")
    assert outcome.ok().out.startswith("ImportError: ")
    assert first or "main interpreter" in outcome.out


def test_import_is_cheap(jobs):
    """L12: `import pyrdv` loads neither NumPy nor asyncio; hello on two ranks takes no minute."""
    outcome = jobs.alone("""
import sys
import pyrdv
assert "numpy" not in sys.modules
from pyrdv import MPI
heavy = {"asyncio", "multiprocessing", "ctypes.util", "unittest", "email"} & set(sys.modules)
import numpy
print(heavy - {"x"})
""")
    assert "asyncio" not in outcome.ok().out
    began = time.monotonic()
    assert jobs.run(HELLO, 2).ok().lines == ["0 2 1", "1 2 1"]
    assert time.monotonic() - began < 20


def test_forked_child(jobs):
    """R03: a forked child gets a clear error at once and does the parent no harm."""
    outcome = jobs.run("""
import os, warnings
import numpy as np
from pyrdv import MPI
warnings.simplefilter("ignore")
comm = MPI.COMM_WORLD
other = 1 - comm.rank
comm.Barrier()
pending = comm.irecv(None, other, 4)
pid = os.fork()
if pid == 0:
    for call in (lambda: comm.send(1, other), lambda: comm.Send(np.ones(1), other),
                 lambda: comm.recv(None, other), lambda: comm.Barrier(),
                 lambda: comm.Iprobe(other), lambda: pending.wait(), lambda: pending.test()):
        try: call()
        except MPI.Exception as error: assert "forked" in str(error), error
        else: os._exit(9)
    del pending
    raise SystemExit(0)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
comm.send("unharmed", other, 4)
assert pending.wait() == "unharmed"
comm.Barrier()
print("ok")
""", 2, limit=40)
    assert outcome.ok().out == "ok\n" * 2


def test_spawned_child(jobs):
    """R03: a child that multiprocessing spawns is a single process, not a rank."""
    outcome = jobs.run("""
import multiprocessing

def work(queue):
    from pyrdv import MPI
    queue.put((MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size))

if __name__ == "__main__":
    from pyrdv import MPI
    comm = MPI.COMM_WORLD
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    assert queue.get() == (0, 1)
    child.join()
    assert child.exitcode == 0
    print(comm.allreduce(1))
""", 2)
    assert outcome.ok().out == "2\n2\n"


def test_affinity_is_left_alone(jobs):
    """F03: neither the launcher nor the import binds the process."""
    outcome = jobs.run("""
import os
before = os.sched_getaffinity(0)
from pyrdv import MPI
MPI.COMM_WORLD.Barrier()
assert os.sched_getaffinity(0) == before
print(sorted(before))
""", 2)
    assert outcome.ok().out == f"{sorted(os.sched_getaffinity(0))}\n" * 2


def test_two_jobs_at_once(jobs):
    """X03: jobs side by side never mix; a forged file of another owner's is no matter."""
    code = """
import sys
from pyrdv import MPI
comm = MPI.COMM_WORLD
for turn in range(300):
    got = comm.sendrecv((sys.argv[1], turn), 1 - comm.rank, 0, None, 1 - comm.rank, 0)
    assert got == (sys.argv[1], turn)
print(sys.argv[1])
"""
    forged = [f"/dev/shm/pyrdv-{name}-{os.getpid()}" for name in ("0", "job", "segment")]
    for path in forged:
        open(path, "w").close()
    jobs.shared.update(os.path.basename(path) for path in forged)
    try:
        running = [jobs.start(code, 2, args=(f"job{number}",)) for number in range(3)]
        for number, process in enumerate(running):
            assert jobs.finish(process).ok().out == f"job{number}\n" * 2
    finally:
        for path in forged:
            os.unlink(path)
    jobs.check_clean()


@pytest.mark.parametrize("name", ["d" * 200, "two blanks here " * 8, "größe-ключ-目录-" * 8])
def test_long_and_odd_tmpdir(jobs, name):
    """X07: TMPDIR of 200 characters, with blanks, or beyond ASCII."""
    folder = jobs.folder / name
    folder.mkdir()
    outcome = jobs.run(HELLO, 2, env={"TMPDIR": str(folder)})
    assert outcome.ok().lines == ["0 2 1", "1 2 1"] and os.listdir(folder) == []


def test_nothing_is_hooked(jobs):
    """R12: malloc, mmap, dlopen are those of the C library after the import and traffic.

    Of the signals only SIGUSR2 is taken, if nobody had it: it asks ranks what they wait for.
    """
    jobs.run("""
import ctypes, faulthandler, signal, subprocess
names = ["malloc", "free", "mmap", "munmap", "dlopen", "fork", "madvise"]
def addresses():
    this = ctypes.CDLL(None)
    return {name: ctypes.cast(getattr(this, name), ctypes.c_void_p).value for name in names}
before = addresses()
def handlers():
    return {n: signal.getsignal(n) for n in signal.valid_signals() if n != signal.SIGUSR2}
had = handlers()
from pyrdv import MPI
MPI.COMM_WORLD.allreduce([1] * 100_000)
assert addresses() == before
assert handlers() == had
faulthandler.enable()
assert subprocess.run(["true"]).returncode == 0
""", 2).ok()


def test_stale_dump_of_the_environment(jobs):
    """The secret of the job is not shown to the children of a rank."""
    outcome = jobs.run("""
import os, subprocess
from pyrdv import MPI
assert "PYRDV_SECRET" not in os.environ
assert "SECRET" not in subprocess.run("env", capture_output=True, text=True).stdout
""", 2)
    outcome.ok()
