"""Whole jobs of `pyrdv run` for tests: started, timed, and searched for what they leave behind."""

import ast
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 100.0


class Outcome:
    """What a job printed and how it ended."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    @property
    def lines(self):
        """Lines of standard output, sorted: ranks print in any order."""
        return sorted(self.out.splitlines())

    def ok(self):
        """Demand status 0 and nothing on standard error; returns itself."""
        assert (self.status, self.err) == (0, ""), f"{self}"
        return self

    def __str__(self):
        return f"status {self.status}\n--- out\n{self.out[-6000:]}\n--- err\n{self.err[-6000:]}"


def _default_signals():
    # The tests may run under something that ignores these (nohup, a background job).
    for which in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(which, signal.SIG_DFL)


def clean_environment():
    """This process's environment without what would change a job."""
    dropped = ("PYTHONUNBUFFERED", "PYTHONWARNINGS", "PYTHONFAULTHANDLER")
    environ = {name: value for name, value in os.environ.items()
               if not name.startswith("PYRDV_") and name not in dropped}
    # So that programs find tests.support.
    environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [environ.get("PYTHONPATH")])])
    return environ


class Jobs:
    """Starts jobs in a folder of their own and finds what they leave behind."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.mark = f"RANKS_TEST_MARK={uuid.uuid4().hex}"
        self.running = []
        self.shared = set(os.listdir("/dev/shm"))

    def write(self, source, name="prog.py"):
        """Put a program into the folder; returns its path."""
        path = self.folder / name
        path.write_text(textwrap.dedent(source))
        return str(path)

    def environment(self, **more):
        """What a job of this test sees."""
        name, _, value = self.mark.partition("=")
        return {**clean_environment(), name: value, "TMPDIR": str(self.temporary), **more}

    def start(self, source, n, *options, args=(), env=None, before=(), shell="", **popen):
        """Start ``pyrdv run -n N`` on a source text, or on a list of words.

        Parameters
        ----------
        source : str or list of str
        n : int
        *options : str
            Of ``pyrdv run``.
        args : sequence of str
            Of the program.
        before : sequence of str
            A command that executes the launcher, such as ``unshare -m``.
        shell : str
            Shell commands before it, such as ``ulimit -n 64``.
        """
        program = [self.write(source)] if isinstance(source, str) else [str(w) for w in source]
        words = [*before, sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", str(n), *options,
                 *program, *args]
        if shell:
            words = ["bash", "-c", f'{shell}; exec "$@"', "bash", *words]
        return self.execute(words, env=env, **popen)

    def execute(self, words, env=None, **popen):
        """Start any program; returns the Popen."""
        for stream in ("stdout", "stderr"):
            popen.setdefault(stream, subprocess.PIPE)
        popen.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(words, env=self.environment(**(env or {})), cwd=self.folder,
                                   preexec_fn=_default_signals, start_new_session=True, **popen)
        self.running.append(process)
        return process

    def finish(self, process, limit=LIMIT):
        """Wait for a job, whatever it does, at most `limit` seconds; returns its `Outcome`."""
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            stacks = self.stacks()
            self.kill_all()
            out, err = process.communicate()
            pytest.fail(f"the job still runs after {limit} s\n{stacks}\n"
                        f"{Outcome(None, out.decode(), err.decode())}")
        return Outcome(process.returncode, out.decode(errors="replace"),
                       err.decode(errors="replace"))

    def run(self, source, n, *options, limit=LIMIT, **more):
        """Run a job to its end and check that nothing of it is left."""
        outcome = self.finish(self.start(source, n, *options, **more), limit)
        self.check_clean()
        return outcome

    def alone(self, source, **more):
        """Run a program without the launcher."""
        outcome = self.finish(self.execute([sys.executable, self.write(source)], **more))
        self.check_clean()
        return outcome

    def processes(self):
        """Process ids (zombies included) that carry this test's mark."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if self.mark.encode() in file.read().split(b"\0"):
                            found.append(int(name))
                except OSError:
                    pass
        return found

    def ranks(self):
        """Process id by rank, of the processes that the launcher started."""
        found = {}
        for pid in self.processes():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    for entry in file.read().split(b"\0"):
                        if entry.startswith(b"PYRDV_RANK="):
                            found[int(entry[11:])] = pid
            except OSError:
                pass
        return found

    def stacks(self):
        """What each process waits for in the kernel, for the report of a hang."""
        lines = []
        for pid in self.processes():
            try:
                with open(f"/proc/{pid}/status") as file:
                    state = [line for line in file if line.startswith("State")]
                with open(f"/proc/{pid}/wchan") as file:
                    lines.append(f"process {pid}: {state[0].strip()} {file.read()}")
            except OSError:
                pass
        return "\n".join(lines)

    def kill_all(self):
        """Kill what carries this test's mark."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def check_clean(self, limit=10.0):
        """No process, no file in TMPDIR or /dev/shm is left of the jobs that ended."""
        assert wait_until(lambda: not self.processes(), limit), f"left: {self.processes()}"
        assert os.listdir(self.temporary) == []
        # Other tests may run meanwhile: only what one of our users could have made counts, and
        # the place of a private door has its name for a moment.
        assert wait_until(lambda: not self.left_in_shm(), limit), f"left: {self.left_in_shm()}"

    def left_in_shm(self):
        """Names in /dev/shm that came since the start of this test."""
        return {name for name in set(os.listdir("/dev/shm")) - self.shared if "pyrdv" in name}

    def wait_file(self, name, limit=30.0):
        """Wait until a rank has written the file `name`."""
        assert wait_until((self.folder / name).exists, limit), f"{name} never appeared"

    def close(self):
        """End everything."""
        self.kill_all()
        for process in self.running:
            process.wait()
            for stream in (process.stdout, process.stderr, process.stdin):
                if stream is not None:
                    stream.close()


def wait_until(true, limit):
    """Wait until ``true()``; says whether it came to be."""
    end = time.monotonic() + limit
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# --- programs of many cases -------------------------------------------------------------------


@cache
def case_names(path):
    """Names of the functions ``case_…`` of a program, in order."""
    tree = ast.parse(Path(path).read_text())
    return [node.name for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("case_")]


class Programs:
    """Runs each program of cases once, and answers for each case (see tests/support/cases.py)."""

    def __init__(self, make_folder, make_jobs=Jobs):
        self.make_folder = make_folder
        self.make_jobs = make_jobs
        self.outcomes = {}

    def check(self, path, case, n, *options, only=None, **more):
        """Demand that `case` of the program passed on `n` ranks; `only`: the cases to be run."""
        more["args"] = tuple(only or ())
        key = (str(path), n, options, str(more))
        if key not in self.outcomes:
            jobs = self.make_jobs(self.make_folder())
            try:
                self.outcomes[key] = jobs.run([path], n, *options, **more)
            except BaseException as error:
                # A hang costs its time limit once, not once per case.
                self.outcomes[key] = error
                raise
            finally:
                jobs.close()
        outcome = self.outcomes[key]
        if isinstance(outcome, BaseException):
            pytest.fail(f"the job that holds {case} failed: {outcome}")
        passed = [line.split()[1] for line in outcome.out.splitlines()
                  if line.startswith("passed ")]
        if case not in passed:
            later = "" if f"failed {case} " in outcome.out else " was not reached, or ended the job"
            pytest.fail(f"{case}{later}: {outcome}", pytrace=False)
        if len(passed) == len(only or case_names(path)):
            outcome.ok()
