"""The lab itself: what comes back, what cannot get out, what ends it, and that nothing stays.

Most tests need no device and boot a guest without any, which is quicker.
"""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import job, machine, uml

# The first test may have to build a kernel.
pytestmark = pytest.mark.timeout(3600)

PLAIN = {"nodes": 1, "devices": (), "limit": 60}
COMMAND_LINE = [sys.executable, "-m", "tests.lab", "--nodes", "1", "--limit", "60"]


def marked(folder):
    """Processes whose command line names `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def gone(folder, within=20):
    """Whether no process of the guest of `folder` is left, or will be soon."""
    end = time.monotonic() + within
    while marked(folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def started(tmp_path, lab):
    """Start ``python -m tests.lab`` with a temporary folder of its own; yields a function."""
    lab("true", **PLAIN)  # builds what is missing, or ends the test here
    running = []

    def start(*words, **options):
        process = subprocess.Popen(
            [*COMMAND_LINE, "--", *words], cwd=machine.ROOT, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path)}, **options,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("command, status", [
    ("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 128 + signal.SIGKILL),
    (["sh", "-c", "exit $0", "7"], 7),
])
def test_the_exit_status_comes_back(lab, command, status):
    result = lab(command, **PLAIN)
    assert result.status == status, result.report()
    assert result.reason == ""


def test_stdout_and_stderr_come_back_apart_and_whole(lab):
    # 3 MB of every byte value: no line discipline may touch them.
    result = lab("python -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 12000)'"
                 " | tee $LAB_OUT/copy | cksum; seq 200000; echo bad >&2", **PLAIN)
    assert result.status == 0, result.report()
    lines = result.stdout.splitlines()
    assert lines[0].split()[1] == str(256 * 12000)
    assert lines[1:] == [str(number) for number in range(1, 200001)]
    assert result.stderr == "bad\n"


def test_bytes_pass_unchanged(lab, capfdbinary):
    data = bytes(range(256)) * 4000
    lab("python -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 4000)'", echo=True,
        **PLAIN)
    out, err = capfdbinary.readouterr()
    assert out == data and err == b""


def test_a_list_of_commands_runs_in_one_boot(lab):
    commands = ["echo a >/tmp/kept", "exit 4", "cat /tmp/kept; exit 5"]
    result = lab(machine.sequence(commands), **PLAIN)
    assert result.status == 4
    assert result.stdout == "".join(f"=== {command}\n" for command in commands) + "a\n"


def test_processes_left_behind_do_not_hold_the_lab(lab):
    result = lab("sleep 1000 & echo done", **PLAIN)
    assert (result.status, result.stdout) == (0, "done\n"), result.report()
    assert "sleep 1000" in result.console


def test_the_hosts_files_are_out_of_reach(lab, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    # The second way in is one that only a guest's root user can take.
    result = lab(f"""
        echo changed >{victim} && cat {victim}
        mkdir /media/host && mount -t hostfs none /media/host && cat /media/host{victim}
        echo changed >/media/host{victim} || echo refused
        rm -f /media/host{victim}; touch /media/host{tmp_path}/new; rm -r {tmp_path}
        ls {tmp_path}
        echo result >$LAB_OUT/file
    """, out=tmp_path / "out", **PLAIN)
    assert result.stdout == "changed\nkeptrefused\n", result.report()
    assert "Read-only file system" in result.stderr
    assert victim.read_text() == "kept"
    assert (tmp_path / "out" / "file").read_text() == "result\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "victim"]


def test_the_time_limit_ends_a_command_and_says_what_hung(lab):
    result = lab("echo before; sleep 1234", **{**PLAIN, "limit": 1})
    assert (result.status, result.stdout) == (machine.TIMED_OUT, "before\n"), result.report()
    assert "limit of 1 s" in result.reason
    assert "sleep 1234" in result.console and "limit of 1 s" in result.report()


def test_a_guest_that_never_gets_to_the_command_is_killed(lab, monkeypatch):
    monkeypatch.setattr(machine, "BOOT", 0.05)
    result = lab("echo never", **PLAIN)
    assert (result.status, result.stdout) == (125, ""), result.report()
    assert "did not start" in result.reason


def test_a_guest_that_does_not_even_see_its_limit_is_killed(lab):
    # Every process but the first stops, the guest's own watch over the limit included.
    result = lab("echo lab: stopping >/dev/console; kill -STOP -1; sleep 1000",
                 **{**PLAIN, "limit": 1})
    assert result.status == machine.TIMED_OUT, result.report()
    assert "lab: stopping" in result.console


def test_a_panic_is_reported_with_the_console(lab):
    result = lab("echo before; sleep 0.2; echo c >/proc/sysrq-trigger; sleep 1000", **PLAIN)
    assert (result.status, result.stdout) == (125, "before\n"), result.report()
    assert result.panic.startswith("Kernel panic - not syncing: ") and "\n" not in result.panic
    assert "ended before the command" in result.reason


@pytest.mark.parametrize(("pages", "status"), [(1000, 0), (4000, 125)])
def test_a_process_with_too_many_mappings_is_reported(lab, monkeypatch, pages, status):
    monkeypatch.setattr(uml, "mappings", lambda: 5000)
    result = lab(f"""python -c '
import mmap, time
first, second = (mmap.mmap(-1, {pages} * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                 for _side in range(2))
for page in range({pages}):
    # By turns, so that hardly a page lies behind its neighbour in the memory of the guest.
    first[page * 4096] = second[page * 4096] = 1
print("touched", flush=True)
time.sleep(7)
'""", **PLAIN)
    assert (result.status, result.stdout) == (status, "touched\n"), result.report()
    assert ("vm.max_map_count" in result.reason) == (status == 125), result.report()


def test_a_device_that_cannot_be_made_is_reported(lab):
    result = lab("true", **{**PLAIN, "loss": "banana"})
    assert result.status == 125 and "banana" in result.console, result.report()


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_the_guest_ends_with_its_runner(started, tmp_path, number, status):
    # Output that arrives while the command still runs was streamed.
    process = started("echo up; sleep 1000")
    assert process.stdout.readline() == "up\n"
    folder, = tmp_path.glob("pyrdv-lab-*")
    assert marked(folder)
    process.send_signal(number)
    assert process.wait(60) == status
    assert gone(folder)
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    # A runner that was killed could not remove its folder; the next one does.
    assert started("true").wait(60) == 0
    assert not list(tmp_path.glob("pyrdv-lab-*"))


def test_nothing_is_mounted_on_the_host_meanwhile(started, tmp_path):
    before = Path("/proc/self/mounts").read_text()
    process = started("echo up; sleep 1000")
    assert process.stdout.readline() == "up\n"
    assert Path("/proc/self/mounts").read_text() == before


def test_a_shell_on_a_terminal(started, tmp_path):
    near, far = pty.openpty()
    process = subprocess.Popen(
        COMMAND_LINE, cwd=machine.ROOT, stdin=far, stdout=far, stderr=far,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    os.close(far)
    seen = b""

    def until(text):
        nonlocal seen
        while text not in seen:
            seen += os.read(near, 4096)
        seen = seen[seen.index(text) + len(text):]

    until(b"rxe0")  # the welcome
    # What is typed is echoed, so the words to wait for are written in two parts.
    os.write(near, b"""sh -c 'trap "echo cau""ght; exit 9" INT; tty; echo rea""dy
while :; do sleep 0.1; done'
""")
    until(b"/dev/ttyS")
    until(b"ready")
    os.write(near, b"\x03")
    until(b"caught")
    os.write(near, b"echo after $((1 + $?)); exit 5\r")
    until(b"after 10")
    assert process.wait(60) == 5
    os.close(near)


def test_a_folder_with_a_mount_in_it_is_left_alone(lab):
    program = """
import os, pathlib, subprocess, tempfile
from tests.lab import job
folder = pathlib.Path(tempfile.mkdtemp(prefix=job.PREFIX))
(folder / "memory").mkdir()
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder / "memory"], check=True)
(folder / "memory" / "precious").write_text("kept")
try:
    job.remove(folder)
except RuntimeError as refusal:
    print(str(folder / "memory") in str(refusal), (folder / "memory" / "precious").read_text())
"""
    # In a guest the mount needs nobody's leave and ends with it.
    result = lab(["python", "-c", program], **PLAIN)
    assert result.stdout == "True kept\n", result.report()


def test_what_makes_no_sense_is_refused():
    for wrong in ({"nodes": 3}, {"devices": ("ib",)}, {"machine": "vax"}):
        with pytest.raises(ValueError, match=str(*wrong.values()).strip("(),'")):
            machine.run("true", **wrong)


def test_a_variable_without_a_value_is_refused():
    done = subprocess.run([*COMMAND_LINE, "--env", "NAME", "--", "true"], cwd=machine.ROOT,
                          text=True, capture_output=True)
    assert done.returncode == 2 and "'NAME' is not NAME=VALUE" in done.stderr


def test_help_has_examples():
    told = subprocess.run([*COMMAND_LINE, "--help"], cwd=machine.ROOT, text=True,
                          capture_output=True, check=True).stdout
    for part in ("examples:", "--limit", "LAB_OUT", "--pinned", "docs/lab.md"):
        assert part in told
    assert job.PREFIX not in told
