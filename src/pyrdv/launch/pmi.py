"""PMI-1: the process manager of MPICH's Hydra (`mpiexec`) and of Slurm (`srun --mpi=pmi2`).

The manager holds a key-value space for the job. A process talks to it over a socket that it
inherits (PMI_FD), or dials (PMI_PORT), in lines ``cmd=NAME key=value …``; each request has one
answer. Invariants:

P1. Values that are put are short, at most `PIECE` characters, whatever the manager allows: some
    relay them in one line of bounded length. Longer ones travel in numbered pieces.
P2. What was put is visible to all behind the next barrier; a key is put once.
P3. A process that joined says finalize before it ends in good order. One that fails says abort with
    its status instead: if it only ended, the manager would kill it before its status is known.
P4. The manager is trusted: rank 0 publishes the job's secret through it. What it sends is checked
    all the same: whatever it is, it is right or a `BootstrapError` that shows the line.
"""

import os
from base64 import b64decode, urlsafe_b64encode
from fcntl import ioctl
from socket import AF_INET, AF_UNIX, IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY, socket
from stat import S_ISFIFO
from termios import FIONREAD
from threading import RLock
from time import monotonic, sleep

from pyrdv.errors import BootstrapError, ForkedError
from pyrdv.foreign import shown
from pyrdv.launch import frames

#: Characters of a value (P1); managers allow 1024 or more, but some count the whole line.
PIECE = 400
#: Longest line that a manager may send.
MAX_LINE = 64 << 10
#: Longest greeting of one that was dialled.
MAX_GREETING = 4096
#: Pieces of one value, at most: 1 MiB, the largest value of a launcher's exchange, in short ones.
MAX_PIECES = 1 << 16
#: What a manager must take for a value, at least.
LEAST = 32


class _Answer:
    """A line that the manager sent, as fields ``name=value``."""

    def __init__(self, line, request):
        self.line = line
        self.request = request
        text = line.decode("utf-8", "backslashreplace")
        self.fields = dict(word.partition("=")[::2] for word in text.split())

    def wrong(self, why):
        """The error to raise."""
        return BootstrapError(
            f"the process manager answered '{shown(self.line)}' to {self.request!r}: {why}; pyrdv "
            "speaks PMI-1 (Slurm: `srun --mpi=pmi2`)")

    def text(self, name):
        """A field that must be there."""
        if name not in self.fields:
            raise self.wrong(f"{name} is missing")
        return self.fields[name]

    def number(self, name, least, most):
        """A field that must be a whole number within bounds."""
        text = self.text(name)
        if not (text.isascii() and text.isdecimal() and len(text) < 20
                and least <= int(text) <= most):
            raise self.wrong(f"{name} is no whole number from {least} to {most}")
        return int(text)


class Client:
    """The connection of one rank to its process manager; made by `connect`.

    It has the methods of `pyrdv.launch.bootstrap.Client`. The manager tells nothing about other
    ranks, so there are no notices: it ends the job itself when a rank fails.
    """

    def __init__(self, launch, sock, timeout):
        self.rank = launch.rank
        self.size = launch.size
        self._sock = sock
        self._lock = RLock()
        self._read = b""
        self._steps = 0
        self._closed = False
        self._pid = os.getpid()
        deadline = monotonic() + timeout
        self._ask("init pmi_version=1 pmi_subversion=1", "response_to_init", deadline)
        most = self._ask("get_maxes", "maxes", deadline).number("vallen_max", LEAST, 1 << 60)
        self._longest = min(PIECE, most - 1)
        self._space = self._ask("get_my_kvsname", "my_kvsname", deadline).text("kvsname")

    @staticmethod
    def connect(launch, timeout):
        """Join the job; `launch` learns the job's secret.

        Parameters
        ----------
        launch : pyrdv.launch.env.Launch
        timeout : float
            Seconds, in all.

        Raises
        ------
        BootstrapError
            The manager cannot be reached, or does not answer as PMI-1 has it.
        """
        deadline = monotonic() + timeout
        sock = _open(launch, deadline)
        try:
            client = Client(launch, sock, timeout)
            if launch.size > 1:
                mine = os.urandom(frames.SECRET_BYTES) if launch.rank == 0 else b""
                launch.secret = client._exchange(mine, deadline - monotonic(), (0,))[0]
                if len(launch.secret) != frames.SECRET_BYTES:
                    raise BootstrapError("the process manager lost the secret of the job")
            return client
        except BaseException:
            sock.close()
            raise

    # --- what a rank does ------------------------------------------------------------------------

    def exchange(self, value, timeout=60.0):
        """Give ``value`` to all ranks and return the values of all, in the order of ranks.

        Raises
        ------
        BootstrapError
            The time is up, or the manager is gone.
        """
        return self._exchange(value, timeout, range(self.size))

    def leave(self, status=0, text=""):
        """Say that this rank is done; with another status than 0 end the job (P3); never raises."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            try:
                if status == 0:
                    self._ask("finalize", "finalize_ack", monotonic() + 10.0)
                    self.close()
                else:
                    _read_by_now()
                    self._send(f"abort exitcode={status}")
            except (OSError, BootstrapError):
                pass  # the manager is gone: nobody is left to tell
            # After an abort the kernel closes it, when this process has ended by itself.
            self._closed = True

    def abort(self, code, text=""):
        """Ask the manager to end the whole job with exit status ``code``.  Never raises."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            try:
                # No manager shows the text to anybody.
                os.write(2, f"pyrdv: {shown(text, 8192)}\n".encode())
                _read_by_now()
                self._send(f"abort exitcode={code & 0xFF or 1}")
            except (OSError, BootstrapError):
                pass

    def report(self, body):
        """Nothing: the manager knows no such thing."""

    def close(self):
        """Close the connection without a word; after `leave` nothing is left to close."""
        if not self._closed:
            self._closed = True
            self._sock.close()

    def fileno(self):
        """-1: there are no notices to wait for."""
        return -1

    def notices(self):
        """No notices: an empty list."""
        return []

    # --- how --------------------------------------------------------------------------------

    def _exchange(self, value, timeout, ranks):
        with self._lock:
            deadline = monotonic() + timeout
            self._steps += 1
            if self.rank in ranks:
                self._put(value, deadline)
            self._ask("barrier_in", "barrier_out", deadline, "all ranks to give their part")
            return [self._get(rank, deadline) for rank in ranks]

    def _put(self, value, deadline):
        text = urlsafe_b64encode(value).rstrip(b"=").decode()
        room = self._longest - 8
        pieces = [text[i:i + room] for i in range(0, len(text), room)] or [""]
        # The first piece says how many there are.
        pieces[0] = f"{len(pieces)}.{pieces[0]}"
        for number, piece in enumerate(pieces):
            self._ask(f"put kvsname={self._space} key={self._key(self.rank, number)} "
                      f"value={piece}", "put_result", deadline)

    def _get(self, rank, deadline):
        first = self._get_piece(rank, 0, deadline)
        count, _, text = first.text("value").partition(".")
        if not (count.isascii() and count.isdecimal() and len(count) < 8
                and 0 < int(count) <= MAX_PIECES):
            raise first.wrong(f"this is no first piece of what rank {rank} put")
        text += "".join(self._get_piece(rank, number, deadline).text("value")
                        for number in range(1, int(count)))
        try:
            return b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        except ValueError as error:
            raise first.wrong(f"this begins a value of rank {rank} that is no base 64 "
                              f"({error})") from None

    def _get_piece(self, rank, number, deadline):
        return self._ask(f"get kvsname={self._space} key={self._key(rank, number)}", "get_result",
                         deadline)

    def _key(self, rank, number):
        return f"pyrdv-{self._steps}-{rank}-{number}"

    def _send(self, words):
        if os.getpid() != self._pid:
            raise ForkedError(
                f"process {os.getpid()} is a forked child of rank {self.rank} (process "
                f"{self._pid}) and not a rank itself")
        self._sock.settimeout(10.0)
        self._sock.sendall(f"cmd={words}\n".encode())

    def _ask(self, words, answer, deadline, what="an answer"):
        """Send a request; its `_Answer`."""
        try:
            self._send(words)
            line = self._line(deadline)
        except TimeoutError:
            raise BootstrapError(
                f"rank {self.rank} waited for {what} of the process manager, in vain; raise "
                "PYRDV_TIMEOUT_START if ranks are only slow") from None
        except OSError as error:
            raise BootstrapError(f"the process manager of this job is gone "
                                 f"({error.strerror or error}): the job has ended") from None
        found = _Answer(line, words.split()[0])
        if found.fields.get("cmd") != answer or found.fields.get("rc", "0") != "0":
            raise found.wrong(f"expected was cmd={answer}, and rc=0 if any")
        return found

    def _line(self, deadline):
        while b"\n" not in self._read:
            if len(self._read) > MAX_LINE:
                raise BootstrapError("the process manager sent a line without an end: "
                                     f"'{shown(self._read, 80)}'")
            self._sock.settimeout(max(0.001, deadline - monotonic()))
            data = self._sock.recv(65536)
            if not data:
                cut = f" behind '{shown(self._read, 80)}'" if self._read else ""
                raise OSError(0, f"it closed the connection{cut}")
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line


def _read_by_now():
    """Wait, at most a second, until the manager has read what this process wrote.

    At an abort it drops what it has not read, the traceback that says why among it.
    """
    until = monotonic() + 1.0
    for fd in (1, 2):
        try:
            while S_ISFIFO(os.fstat(fd).st_mode) and monotonic() < until:
                if ioctl(fd, FIONREAD, b"\0\0\0\0") == b"\0\0\0\0":
                    break
                sleep(0.001)
        except OSError:
            pass  # closed: nothing is unread


def _open(launch, deadline):
    """The socket of ``fd N`` or ``HOST:PORT ID``; the latter tells rank and size."""
    manager = launch.manager
    if manager.startswith("fd "):
        fd = int(manager[3:])
        os.set_inheritable(fd, False)
        # Only sent to and received from, so its family does not matter.
        return socket(AF_UNIX, SOCK_STREAM, 0, fd)
    where, _, number = manager.partition(" ")
    host, _, port = where.rpartition(":")
    while True:
        sock = socket(AF_INET, SOCK_STREAM)
        try:
            sock.settimeout(max(0.001, deadline - monotonic()))
            sock.connect((host, int(port)))
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            sock.sendall(f"cmd=initack pmiid={number}\n".encode())
            told = _greeting(sock)
            launch.size = told.number("size", 1, frames.MAX_RANKS)
            launch.rank = told.number("rank", 0, launch.size - 1)
            return sock
        except (OSError, ValueError, BootstrapError) as error:
            sock.close()
            if monotonic() + 0.1 > deadline:
                raise BootstrapError(f"the process manager at {where} cannot be reached, or does "
                                     f"not speak PMI-1: {error}") from None
            sleep(0.1)


def _greeting(sock):
    """What a manager that was dialled says first: initack, size, rank and debug, a line each."""
    read = b""
    while read.count(b"\n") < 4 and len(read) < MAX_GREETING:
        data = sock.recv(1)
        if not data:
            raise OSError(0, "it closed the connection")
        read += data
    return _Answer(read, "initack")
