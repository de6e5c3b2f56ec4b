"""Real jobs for the tests of the launcher."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid

import pytest

from tests.support.bench import Bench

PREAMBLE = """\
import os, signal, sys, time
from pyrdv.launch import bootstrap, env
launch = env.detect()
env.line_buffer_output(launch)
def join(timeout=30):
    return bootstrap.Client.connect(launch, timeout)
"""

LIMIT = 60.0


def _default_signals():
    # The tests may run under something that ignores these (nohup, a background job).
    for which in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(which, signal.SIG_DFL)


def clean_environment():
    """This process's environment without what would change the output of a job."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("PYRDV_") and name != "PYTHONUNBUFFERED"}


class Jobs:
    """Starts jobs and finds what they leave behind."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = f"LAUNCH_TEST_MARK={uuid.uuid4().hex}"
        self.running = []

    def write(self, code, name="prog.py"):
        path = self.folder / name
        path.write_text(PREAMBLE + textwrap.dedent(code))
        return str(path)

    def start(self, code, n, *options, args=(), shell_before="", **popen):
        """Start ``pyrdv run`` on `code` (or on a list of words) and return the Popen."""
        program = [self.write(code)] if isinstance(code, str) else list(code)
        words = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", str(n), *options,
                 *program, *args]
        if shell_before:
            words = ["bash", "-c", f'{shell_before}; exec "$@"', "bash", *words]
        environ = clean_environment()
        environ.update(popen.pop("env", {}))
        name, _, value = self.mark.partition("=")
        environ[name] = value
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(words, env=environ, preexec_fn=_default_signals,
                                   start_new_session=True, cwd=self.folder, **popen)
        self.running.append(process)
        return process

    def finish(self, process, limit=LIMIT):
        """Wait for a job; return (status, stdout, stderr) with text as str."""
        out, err = process.communicate(timeout=limit)
        return (process.returncode, (out or b"").decode(errors="replace"),
                (err or b"").decode(errors="replace"))

    def run(self, code, n, *options, **more):
        """Start a job and wait for it."""
        given = more.pop("input", None)
        if given is not None:
            more["stdin"] = subprocess.PIPE
        process = self.start(code, n, *options, **more)
        if given is not None:
            process.stdin.write(given)
            process.stdin.close()
            process.stdin = None
        return self.finish(process)

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

    def gone(self, limit=10.0):
        """Wait until nothing of the jobs is left; returns what remains."""
        return wait_until(lambda: not self.processes(), limit) or self.processes()

    def wait_file(self, name, limit=20.0):
        """Wait until a rank has written the file `name`; returns its text."""
        path = self.folder / name
        assert wait_until(path.exists, limit), f"{name} never appeared"
        return path.read_text()


def wait_until(true, limit):
    """Wait until ``true()``; says whether it came to be."""
    end = time.monotonic() + limit
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def jobs(tmp_path):
    made = Jobs(tmp_path)
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
        process.wait()
    for pid in made.processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


@pytest.fixture
def bench():
    made = []

    def make(size, **options):
        made.append(Bench(size, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()
