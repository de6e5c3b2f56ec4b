"""Runs programs that may hang: what they started is gone when a call returns.

`adopt` makes this process the parent of every orphan among its descendants, so that none escapes:
mpirun puts its ranks into sessions of their own.  Output goes to files, not to pipes, which a
forgotten grandchild would keep open.
"""

import ctypes
import os
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LISTEN = "0A"


class Failed(RuntimeError):
    """A program ended badly.

    Attributes
    ----------
    hung : bool
        It did not end by itself.
    output : str
        What it printed.
    """

    def __init__(self, text, hung=False, output=""):
        super().__init__(text)
        self.hung = hung
        self.output = output


class Running:
    """A program on its way.

    Parameters
    ----------
    command : sequence
        Words; they are turned into text.
    env : dict
        Variables added to the environment.
    """

    def __init__(self, command, env=None):
        self.command = [str(word) for word in command]
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            self.command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
            stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def text(self):
        """Return what the program has printed so far, on either stream."""
        self.output.seek(0)
        return self.output.read()

    def wait(self, seconds):
        """Return the output after a good end, else raise `Failed`."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"no end within {seconds:g} s", hung=True, output=self.report()) from None
        if status:
            raise Failed(f"status {status}", output=self.report())
        return self.text()

    def report(self):
        """Return the command and its output, indented."""
        lines = ["$ " + shlex.join(self.command), *self.text().splitlines()]
        return "".join(f"    {line}\n" for line in lines)

    def listens(self, port, seconds=5.0):
        """Wait until something in this program's network namespace listens on TCP `port`.

        Returns False if the program ended, or `seconds` passed, before that.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if port in listening(self.process.pid):
                return True
            time.sleep(0.02)
        return False


def adopt():
    """Become the parent of all orphans among the descendants; needed once, before the others."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def alone(command, env, seconds):
    """Run one program to its end; return its output, or raise `Failed`."""
    running = Running(command, env)
    try:
        return running.wait(seconds)
    finally:
        end_all()


def pair(server, client, port, seconds):
    """Run a server until its client has ended; return the client's output, or raise `Failed`.

    Parameters
    ----------
    server, client : (command, env)
    port : int
        TCP port; the client starts when it is listened on, or a second later.
    seconds : float
        Limit for each of them.
    """
    first = Running(*server)
    try:
        if not first.listens(port, 1.0) and first.process.poll() is not None:
            raise Failed("the server ended at once", output=first.report())
        second = Running(*client)
        try:
            return second.wait(seconds)
        except Failed as error:
            raise Failed(f"{error}", error.hung, error.output + first.report()) from None
    finally:
        # Servers end by themselves after one client; a moment lets them close their connection.
        try:
            first.process.wait(0.5)
        except subprocess.TimeoutExpired:
            pass
        end_all()


def end_all():
    """Kill and reap every descendant of this process."""
    deadline = time.monotonic() + 10
    while True:
        _reap()
        left = descendants()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise Failed(f"processes that cannot be killed: {sorted(left)}", hung=True)
        time.sleep(0.01)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def descendants():
    """Return the ids of all live processes that descend from this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, fresh = set(), {os.getpid()}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found


def listening(pid="self"):
    """Return the TCP ports on which somebody listens in the network namespace of process `pid`."""
    ports = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) > 3 and words[3] == LISTEN:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports
