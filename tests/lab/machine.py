"""Runs a command in the lab: a virtual machine with real soft-RDMA devices and one or two nodes.

    result = run("ibv_devices")
    assert result.status == 0, result.report()

1. Whatever happens (an exception, Ctrl-C, the time limit, a panic of the guest), `run` returns or
   raises with every process of the machine gone: it kills the machine's process and waits until
   all holders of the output pipes have ended.  If it is killed itself, the kernel ends the machine.
2. A guest that hangs is ended by SIGKILL, by process id; the result says so and has its console.
3. The job's folder is the only thing that a guest shares with the host.  It is removed file by file
   and never across a mount.

A machine (`uml.py`, `qemu.py`) is a function ``start(job, streams) -> Popen`` and a function
``ensure(progress)`` that builds what is missing or raises `LabUnavailable`.
"""

import contextlib
import functools
import importlib
import os
import re
import selectors
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from .job import ROOT, Job, new_folder, settings as settings, write
from .terminal import Terminal

DEVICES = ("rxe", "siw")
MACHINES = ("uml", "qemu")
# The limit counts from the command's start.  A guest is killed that takes longer than this to get
# there (it is a second on an idle host), or longer than this beyond its limit to print what hung.
BOOT = 120.0
GRACE = 4.0
TIMED_OUT = 124


class LabUnavailable(Exception):
    """The lab cannot be built or started here; the text says why and what would help."""


@dataclass(frozen=True)
class Result:
    """How a command in the lab ended.

    Attributes
    ----------
    status : int
        The command's exit status; 128 + n after signal n; 124 where the time limit ended the guest;
        125 where the guest itself failed (a panic, a device that could not be made).
    stdout, stderr : str
        Output of the command.
    console : str
        What the guest's kernel and its set-up said.
    seconds : float
        From the start of the machine to its end.
    reason : str
        Why the status is 124 or 125, else empty.
    """

    status: int
    stdout: str
    stderr: str
    console: str
    seconds: float
    reason: str = ""

    @property
    def panic(self):
        """The line in which the guest's kernel says that it cannot go on, or nothing."""
        found = re.search(r"Kernel panic[^\r\n]*", self.console)
        return found[0] if found else ""

    def report(self):
        """Everything a person needs who must find out what went wrong."""
        parts = [f"status {self.status} after {self.seconds:.1f} s {self.reason}".rstrip()]
        for name in ("stdout", "stderr", "console"):
            text = getattr(self, name).strip()
            if text:
                parts.append(f"--- {name} ---\n{text}")
        return "\n".join(parts)


@dataclass
class Streams:
    """Descriptors that a machine connects to its guest: written by it, but for the terminal."""

    console: int
    stdout: int
    stderr: int
    terminal: int | None = None


@dataclass
class _Pump:
    """Reads the guest's output and hands it on while it comes."""

    sinks: dict
    chunks: dict = field(default_factory=dict)

    def take(self, name, data):
        self.chunks.setdefault(name, []).append(data)
        sink = self.sinks.get(name)
        if sink is not None:
            try:
                sink.write(data)
                sink.flush()
            except (BrokenPipeError, ValueError):
                self.sinks[name] = None

    def text(self, name):
        return b"".join(self.chunks.get(name, [])).decode(errors="replace")


def default_cpus():
    """Guest processors: those of the host, two at least and eight at most."""
    return max(2, min(8, len(os.sched_getaffinity(0))))


def run(command, *, nodes=2, devices=DEVICES, rate=None, delay=None, loss=None, pinned=False,
        limit=120, memory=2048, cpus=None, machine="uml", env=None, directory=ROOT, out=None,
        echo=False, progress=None):
    """Run `command` on node 0 of a freshly booted lab.

    Parameters
    ----------
    command : str or sequence of str or None
        Text for ``sh``, or the words of one command, or nothing for a shell on this terminal.
    nodes : {1, 2}
        Network namespaces with devices: ``node0`` (where the command runs) and ``node1``.
    devices : sequence of {"rxe", "siw"}
        Kinds of devices; node k gets one of each, called rxe`k` and siw`k`.
    rate, delay, loss : str, optional
        The cable's, as netem spells them ("50mbit", "50us", "0.1%"); applied on both ends.
    pinned : bool
        Pin the guest's processor k to the host's; only good if the command pins its processes too.
    limit : float
        Seconds until the guest is ended; 0 for none.
    memory : int
        Guest memory in MiB; files the guest writes lie in it too.
    cpus : int, optional
        Guest processors.
    machine : {"uml", "qemu"}
        What runs the guest.
    env : dict, optional
        More environment variables for the command.
    directory : Path
        The command's working directory.
    out : Path, optional
        Folder that gets a copy of what the command leaves in the folder named by ``LAB_OUT``.
    echo : bool
        Show stdout and stderr of the command on those of this process while they come.
    progress : callable, optional
        Called with a line of text where something takes long (building a kernel).

    Returns
    -------
    Result

    Raises
    ------
    LabUnavailable
        If the lab cannot be built or started on this machine.
    ValueError
        If an argument makes no sense.
    """
    devices = tuple(devices)
    if nodes not in (1, 2):
        raise ValueError(f"a lab has 1 or 2 nodes, not {nodes}")
    if not set(devices) <= set(DEVICES):
        raise ValueError(f"devices are out of {', '.join(DEVICES)}, not {devices}")
    if machine not in MACHINES:
        raise ValueError(f"machines are {', '.join(MACHINES)}, not {machine}")
    driver = importlib.import_module(f"{__package__}.{machine}")
    driver.ensure(progress or _say)
    if command is not None and not isinstance(command, str):
        command = shlex.join(command)
    with new_folder() as folder:
        job = Job(
            command=command, nodes=nodes, devices=devices, rate=rate, delay=delay, loss=loss,
            pinned=pinned, limit=limit, memory=memory, cpus=cpus or default_cpus(),
            directory=Path(directory), environment=dict(env or {}), folder=folder, machine=machine,
            size=tuple(shutil.get_terminal_size())[::-1],
        )
        write(job)
        result = _session(driver, job, echo)
        if out is not None:
            shutil.copytree(job.out, out, dirs_exist_ok=True)
        return result


def sequence(commands):
    """One command out of many, for one boot.

    Parameters
    ----------
    commands : iterable of str
        Texts for ``sh``; each runs in a shell of its own whatever the ones before it did.

    Returns
    -------
    str
        A text for `run`.  It prints a heading before each command; its status is that of the first
        that failed.
    """
    parts = ["worst=0"]
    for text in commands:
        parts += [f"printf '=== %s\\n' {shlex.quote(text)}", f"sh -c {shlex.quote(text)}",
                  "status=$?; [ $worst != 0 ] || worst=$status"]
    return "\n".join([*parts, "exit $worst"])


def _say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def _session(driver, job, echo):
    """Boot, pass the output on, end the guest; see invariant 1."""
    sinks = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer} if echo else {}
    pump = _Pump(sinks)
    ends = {name: os.pipe2(os.O_CLOEXEC) for name in ("console", "stdout", "stderr")}
    readers = {name: pair[0] for name, pair in ends.items()}
    begin = time.monotonic()
    process = None
    with contextlib.ExitStack() as stack:
        for number in readers.values():
            stack.callback(os.close, number)
        try:
            streams = Streams(**{name: pair[1] for name, pair in ends.items()})
            if job.command is None:
                streams.terminal = stack.enter_context(Terminal(lambda: process.kill())).guest
            process = driver.start(job, streams)
        finally:
            for _, write in ends.values():
                os.close(write)
        try:
            timed_out = not _follow(pump, readers, _Deadline(job, begin))
        finally:
            process.kill()
            process.wait()
            # The last holder of the pipes is the last process of the guest.
            end = time.monotonic() + 10
            if not _follow(pump, readers, lambda: end):
                raise RuntimeError(f"the guest does not end; its folder {job.folder} is left alone")
    return _judge(job, pump, timed_out, time.monotonic() - begin)


class _Deadline:
    """When a guest is to be killed; known only once its command has started."""

    def __init__(self, job, begin):
        self._job, self._booted, self._last = job, False, begin + BOOT

    def __call__(self):
        if not self._booted and (self._job.folder / "started").exists():
            self._booted = True
            self._last = time.monotonic() + self._job.limit + GRACE if self._job.limit else None
        return self._last


def _follow(pump, readers, deadline):
    """Read until every stream has ended; False if the time that `deadline` tells came first."""
    with selectors.DefaultSelector() as selector:
        for name, reader in readers.items():
            selector.register(reader, selectors.EVENT_READ, name)
        while selector.get_map():
            last = deadline()
            rest = 1.0 if last is None else min(1.0, last - time.monotonic())
            if rest <= 0:
                return False
            for key, _ in selector.select(rest):
                data = os.read(key.fd, 65536)
                if data:
                    pump.take(key.data, data)
                else:
                    selector.unregister(key.fd)
    return True


def _judge(job, pump, timed_out, seconds):
    try:
        word = (job.folder / "status").read_text().strip()
    except OSError:
        word = ""
    reason = ""
    if word.isdigit():
        status = int(word)
    elif timed_out and not (job.folder / "started").exists():
        status, reason = 125, f"(the guest did not start the command within {BOOT:g} s)"
    elif timed_out or word == "limit":
        status, reason = TIMED_OUT, f"(the time limit of {job.limit:g} s ended the guest)"
    elif word == "setup":
        status, reason = 125, "(the guest could not make the nodes and devices)"
    elif word == "mappings":
        status, reason = 125, ("(a process of the guest has as many mappings as the host allows "
                               "one, see vm.max_map_count in docs/lab.md; it cannot go on)")
    else:
        status, reason = 125, "(the guest ended before the command did)"
    return Result(status, pump.text("stdout"), pump.text("stderr"), pump.text("console"), seconds,
                  reason)


def have(*programs):
    """The programs that are missing on the host."""
    return [name for name in programs if shutil.which(name) is None]


NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]


@functools.cache
def namespaces():
    """The command that starts a program in new mount and pid namespaces.

    Root needs no more; another user gets them with a user namespace, where that is allowed.

    Raises
    ------
    LabUnavailable
        If this process may not make them.
    """
    missing = have("unshare", "setpriv")
    if missing:
        raise LabUnavailable(f"util-linux is missing: no {', '.join(missing)}")
    command = NAMESPACES + (["--user", "--map-root-user"] if os.geteuid() else [])
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        who = "root here" if os.geteuid() == 0 else "an ordinary user here; root could"
        raise LabUnavailable(
            f"no namespaces for {who}: {tried.stderr.strip()}. In a container give it "
            f"`--privileged`; an ordinary user needs user namespaces (sysctl "
            f"user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns) or sudo"
        )
    return command


def popen(command, streams):
    """Start a machine's process so that it ends with this one, whatever ends this one."""
    passed = [number for number in vars(streams).values() if number is not None]
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL,
        stdout=streams.console, stderr=streams.console, pass_fds=passed,
    )
