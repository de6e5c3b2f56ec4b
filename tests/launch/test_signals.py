"""Interrupts, stops, and a launcher that dies (field L04, L13)."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest

COMPUTE = """
    client = join()
    client.exchange(b"")
    (lambda: open(f"ready{launch.rank}", "w").close())()
    count = 0
    try:
        while True:
            try:
                sum(range(1000)) if launch.rank else time.sleep(60)
            except KeyboardInterrupt:
                count += 1
                raise
    finally:
        time.sleep(0.3)  # a second delivery would strike here
        with open(f"done{launch.rank}.tmp", "w") as file:
            file.write(str(count))
        os.rename(f"done{launch.rank}.tmp", f"done{launch.rank}")
    """


@pytest.mark.parametrize("group", [False, True])
def test_interrupt_reaches_each_rank_once(jobs, group):
    """To the launcher alone or, as a terminal does, to its whole process group."""
    process = jobs.start(COMPUTE, 3)
    for rank in range(3):
        jobs.wait_file(f"ready{rank}")
    sent = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    status, _, err = jobs.finish(process)
    assert time.monotonic() - sent < 8
    assert status == 130 and "interrupt again to kill" in err
    assert [jobs.wait_file(f"done{rank}") for rank in range(3)] == ["1"] * 3
    assert err.count("KeyboardInterrupt") == 3
    assert jobs.gone() is True


def test_interrupt_while_waiting_in_the_bootstrap(jobs):
    process = jobs.start("""
        client = join()
        open(f"ready{launch.rank}", "w").close()
        if launch.rank == 0: time.sleep(60)
        try: client.exchange(b"")
        except KeyboardInterrupt: print("interrupted", client.exchange is not None)
        """, 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    status, out, _ = jobs.finish(process)
    assert (status, out) == (130, "interrupted True\n")


def test_second_interrupt_kills(jobs):
    process = jobs.start("""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        open(f"ready{launch.rank}", "w").close()
        time.sleep(100)
        """, 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    status, _, err = jobs.finish(process, 10)
    assert status == 130 and "killing" in err
    assert jobs.gone() is True


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP])
def test_end_signals_end_the_job(jobs, which):
    process = jobs.start("""
        def ended(*_): print("told", launch.rank); sys.exit(0)
        signal.signal(signal.SIGTERM, ended)
        open(f"ready{launch.rank}", "w").close()
        time.sleep(100)
        """, 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    process.send_signal(which)
    status, out, err = jobs.finish(process)
    assert status == 128 + which and which.name in err
    assert sorted(out.splitlines()) == ["told 0", "told 1"]
    assert jobs.gone() is True


def test_ignored_signals_stay_ignored(jobs):
    """As under nohup."""
    process = jobs.start("open('ready', 'w').close(); time.sleep(1.5); print('end')", 1,
                         shell_before="trap '' HUP INT")
    jobs.wait_file("ready")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    assert jobs.finish(process) == (0, "end\n", "")


def test_user_signals_are_passed_on(jobs):
    process = jobs.start("""
        signal.signal(signal.SIGUSR1, lambda *_: (print("usr1", launch.rank), os._exit(0)))
        open(f"ready{launch.rank}", "w").close()
        time.sleep(100)
        """, 2)
    for rank in range(2):
        jobs.wait_file(f"ready{rank}")
    process.send_signal(signal.SIGUSR1)
    status, out, _ = jobs.finish(process)
    assert status == 0 and sorted(out.splitlines()) == ["usr1 0", "usr1 1"]


def test_killed_launcher_takes_the_ranks_with_it(jobs):
    """Ranks that use pyrdv, ignore every signal, or never heard of it."""
    process = jobs.start("""
        if launch.rank == 0: client = join()
        if launch.rank == 1:
            for which in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(which, signal.SIG_IGN)
        open(f"ready{launch.rank}", "w").close()
        if launch.rank == 2: os.execvp("sleep", ["sleep", "100"])
        while True: pass
        """, 3)
    for rank in range(3):
        jobs.wait_file(f"ready{rank}")
    process.kill()
    process.wait()
    assert jobs.gone(5) is True


def test_children_of_a_failed_rank_are_ended_too(jobs):
    status, _, _ = jobs.run("""
        import subprocess
        subprocess.Popen(["sleep", "100"])
        sys.exit(3 if launch.rank == 0 else 0)
        """, 2, "--grace", "0.1", "--kill-after", "0.3")
    assert status == 3
    assert jobs.gone(5) is True


def test_background_child_does_not_hold_the_launcher(jobs):
    """A child that outlives its rank and keeps the pipes open (daemon, wrapper)."""
    began = time.monotonic()
    status, out, _ = jobs.run("""
        import subprocess
        child = subprocess.Popen(["sleep", "30"])
        print("\\n".join(["x" * 1000] * 100))
        """, 2)
    # Longer lines than 64 KiB may be cut by another rank's (O2).
    assert status == 0 and out == ("x" * 1000 + "\n") * 200
    assert time.monotonic() - began < 15


def test_stopped_and_continued_with_the_launcher(jobs):
    process = jobs.start("""
        open("ready.tmp", "w").write(str(os.getpid())); os.rename("ready.tmp", "ready")
        time.sleep(2.5); print("end")
        """, 1)
    rank = int(jobs.wait_file("ready"))

    def state(pid):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]

    def until(pid, wanted):
        end = time.monotonic() + 10
        while state(pid) not in wanted:
            assert time.monotonic() < end
            time.sleep(0.01)

    process.send_signal(signal.SIGTSTP)
    until(process.pid, "T")
    until(rank, "T")
    process.send_signal(signal.SIGCONT)
    assert jobs.finish(process) == (0, "end\n", "")


# --- on a terminal ------------------------------------------------------------------------------


class Terminal:
    """A job whose standard descriptors are a terminal of its own, in its foreground."""

    def __init__(self, jobs, code, n, *options):
        self.master, slave = pty.openpty()

        def controlling():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        program = jobs.write(code)
        name, _, value = jobs.mark.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", str(n), *options, program],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=jobs.folder,
            preexec_fn=controlling, env={
                **{key: text for key, text in os.environ.items() if not key.startswith("PYRDV_")},
                name: value})
        os.close(slave)
        jobs.running.append(self.process)
        self.seen = b""

    def until(self, text, limit=20.0):
        end = time.monotonic() + limit
        os.set_blocking(self.master, False)
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            try:
                self.seen += os.read(self.master, 4096)
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        assert text in self.seen

    def type(self, data):
        os.write(self.master, data)


def test_prompt_input_and_end_of_input_on_a_terminal(jobs):
    terminal = Terminal(jobs, """
        if launch.rank == 0:
            name = input("name? ")
            print("hello", name, sys.stdin.read() == "")
        else:
            assert sys.stdin.read() == ""
        """, 2)
    terminal.until(b"name? ")
    terminal.type(b"world\n")
    time.sleep(0.3)
    terminal.type(b"\x04")
    terminal.until(b"hello world True")
    assert terminal.process.wait(20) == 0


def test_control_c_on_a_terminal(jobs):
    terminal = Terminal(jobs, """
        try:
            print("ready", launch.rank); time.sleep(60)
        except KeyboardInterrupt:
            time.sleep(0.3); print("caught", launch.rank)
        """, 2)
    terminal.until(b"ready 0")
    terminal.until(b"ready 1")
    terminal.type(b"\x03")
    terminal.until(b"caught 0")
    terminal.until(b"caught 1")
    assert terminal.process.wait(20) == 130


def test_open_lines_are_never_glued_on_a_terminal(jobs):
    terminal = Terminal(jobs, """
        if launch.rank == 0:
            print("10%", end="\\r50%", flush=True); time.sleep(1); print()
        else:
            time.sleep(0.5); print("other")
        """, 2)
    terminal.until(b"10%\r50%\r\nother\r\n")
    assert terminal.process.wait(20) == 0
