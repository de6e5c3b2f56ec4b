"""What is typed while a job runs (pyrdv.launch.terminal)."""

import os
import pty
import select
import subprocess
import sys

import pytest


@pytest.fixture
def session(jobs):
    """Starts a job in a terminal of its own; what is left there afterwards is printed."""
    opened = []

    def start(code):
        program = jobs.write(code)
        pid, fd = pty.fork()
        if pid == 0:
            try:
                subprocess.call([sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2", program],
                                cwd=jobs.folder)
                ready = select.select([0], [], [], 0)[0]
                os.write(1, b"LEFT %r\n" % (os.read(0, 100) if ready else b""))
            finally:
                os._exit(0)
        opened.append((pid, fd))
        return fd

    yield start
    for pid, fd in opened:
        os.close(fd)
        os.waitpid(pid, 0)


def all_of(fd):
    seen = b""
    while True:
        try:
            data = os.read(fd, 4096)
        except OSError:
            return seen.decode()
        if not data:
            return seen.decode()
        seen += data


READY = "open('ready', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


def test_what_no_rank_reads_is_left_for_the_shell(jobs, session):
    fd = session(f"if launch.rank == 0:\n    {READY}".replace("\nwhile", "\n    while"))
    jobs.wait_file("ready")
    os.write(fd, b"ls -l\n")
    (jobs.folder / "go").touch()
    assert "LEFT b'ls -l\\n'" in all_of(fd).splitlines()


def test_what_rank_0_reads_is_not_left(jobs, session):
    fd = session("if launch.rank == 0:\n"
                 "    open('ready', 'w').close()\n"
                 "    print('got', os.read(0, 4))\n"
                 "    while not os.path.exists('go'): time.sleep(0.01)")
    jobs.wait_file("ready")
    os.write(fd, b"one\ntwo\n")
    seen = b""
    while b"got" not in seen:
        seen += os.read(fd, 4096)
    (jobs.folder / "go").touch()
    text = seen.decode() + all_of(fd)
    assert "got b'one\\n'" in text and "LEFT b'two\\n'" in text
