"""A rank's side of the bootstrap: a blocking client with timeouts.

The protocol and its invariants are in `frames`, the other side in `server`. A client may be used
by several threads: calls wait for each other, except `notices`, which never waits.

Whoever sleeps on `Client.fileno` must call `Client.notices` after `connect` and after every other
call of the client, because that call may have taken a notice from the descriptor.
"""

import os
from socket import SHUT_WR
from threading import RLock
from time import monotonic, sleep

from pyrdv.errors import BootstrapError, ForkedError, PeerLostError, VersionError
from pyrdv.launch import frames
from pyrdv.launch.alone import Alone
from pyrdv.launch.dialing import dial, knock

LAUNCHER = -1
PAUSE_SECONDS = 0.1     # the longest between two tries to join


class Client:
    """The connection of one rank to its launcher; made by `connect`."""

    def __init__(self, launch, sock, reader, seal):
        self.rank = launch.rank
        self.size = launch.size
        self._address = launch.address
        self._sock = sock
        self._reader = reader
        self._seal = seal
        self._lock = RLock()
        self._notices = []
        self._unsent = bytearray()
        self._request = 0
        self._gone = False
        self._closed = False
        self._pid = os.getpid()

    @staticmethod
    def connect(launch, timeout):
        """Join the job.

        Parameters
        ----------
        launch : pyrdv.launch.env.Launch
            From `pyrdv.launch.env.detect`.
        timeout : float
            Seconds, in all.

        Returns
        -------
        Client or Alone
            `Alone`, with the same methods, for a world of one without a launcher.

        Raises
        ------
        BootstrapError
            The launcher cannot be reached, refuses this process, or does not prove that it is
            the launcher of this job.
        VersionError
            Launcher and rank run different versions; the text names both.
        """
        if launch.address is None:
            return Alone(launch)
        deadline = monotonic() + timeout
        pause = 0.01
        while True:
            sock = None
            try:
                sock = knock(launch.door) or dial(launch.address, deadline)
                return Client(launch, sock, *_handshake(sock, launch, deadline))
            except _Again as error:
                # The launcher makes room by closing what has not authenticated yet, so an early
                # end of a connection says nothing: try again until time is up.
                sock.close()
                if monotonic() + pause >= deadline:
                    raise BootstrapError(
                        f"rank {launch.rank} could not join the job at {launch.address} within "
                        f"{timeout:g} s ({error}); raise PYRDV_TIMEOUT_START if the machine is "
                        "only slow"
                    ) from None
            except BaseException:
                if sock is not None:
                    sock.close()
                raise
            sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS)

    # --- what a rank does ------------------------------------------------------------------------

    def exchange(self, value, timeout=60.0):
        """Give ``value`` to all ranks and return the values of all, in the order of ranks.

        Parameters
        ----------
        value : bytes
            At most 1 MiB, and 16 MiB over all ranks.
        timeout : float
            Seconds; None waits without end.

        Returns
        -------
        list of bytes
            One per rank.

        Raises
        ------
        PeerLostError
            A rank ended before it came here.
        BootstrapError
            Too long, the time is up (the text names the ranks that are missing), or the launcher
            is gone.
        """
        if len(value) > frames.MAX_VALUE:
            raise BootstrapError(
                f"value of {len(value)} bytes is above the limit of {frames.MAX_VALUE}")
        body = self._ask(frames.EXCHANGE, bytes(value), frames.ALL, timeout,
                         "all ranks to give their part")
        try:
            values = frames.unpack_all(body)
        except frames.FrameError as error:
            raise BootstrapError(f"the launcher sent a broken answer: {error}") from None
        if len(values) != self.size:
            raise BootstrapError(f"the launcher sent {len(values)} values for {self.size} ranks")
        return values

    def leave(self, status=0, text=""):
        """Say that this rank is done, and close; never raises, and may be called again.

        Parameters
        ----------
        status : int
            0: the others see the notice ``left``; else ``lost``.
        text : str
            Why, if it is not 0: for the others.
        """
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            try:
                self._transmit(frames.LEAVE, 0, frames.pack_number_text(status, text), 2.0)
                self._sock.shutdown(SHUT_WR)
            except (OSError, BootstrapError):
                pass  # the launcher is gone: nobody is left to tell
            self.close()

    def abort(self, code, text=""):
        """Ask the launcher to end the whole job with exit status ``code``; returns at once.

        The launcher ends this process as well, after the same grace as the others. Never raises.
        """
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            try:
                self._transmit(frames.ABORT, 0, frames.pack_number_text(code, text), 2.0)
            except (OSError, BootstrapError):
                pass

    def report(self, body):
        """Tell the launcher of this rank's failure, or end (`failures.Report`); never raises."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            try:
                self._transmit(frames.REPORT, 0, body, 2.0)
            except (OSError, BootstrapError):
                pass

    def close(self):
        """Close the connection without a word; the others then see this rank as lost."""
        self._closed = True
        self._sock.close()

    def fileno(self):
        """Descriptor that becomes readable when there may be notices; -1 after the end."""
        return -1 if self._gone or self._closed else self._sock.fileno()

    def notices(self):
        """Return what was reported since the last call; never blocks.

        Returns
        -------
        list of (rank, kind, text)
            kind ``left``: that rank finished in order; ``lost``: it ended otherwise, `text` says
            how; ``report`` (rank -1): this rank is to say what it waits for; ``launcher`` (rank -1,
            once): the launcher is gone and the job with it.
        """
        if os.getpid() != self._pid or not self._lock.acquire(False):
            return []
        try:
            if not self._closed:
                try:
                    self._take(None)  # what came with the last answer
                    while self._receive(0.0):
                        self._take(None)
                except BootstrapError:
                    pass  # recorded as a notice
            found, self._notices = self._notices, []
            return found
        finally:
            self._lock.release()

    # --- how --------------------------------------------------------------------------------

    def _check(self):
        if os.getpid() != self._pid:
            raise ForkedError(
                f"process {os.getpid()} is a forked child of rank {self.rank} (process "
                f"{self._pid}) and not a rank itself: communicate in the parent, or start the "
                "child with the 'spawn' method"
            )
        if self._closed:
            raise BootstrapError(f"rank {self.rank} has left its job")
        if self._gone:
            raise BootstrapError(f"the launcher of this job at {self._address} is gone")

    def _transmit(self, kind, request, body, timeout):
        """Send a frame whole, finishing first what an interrupted call left behind."""
        self._check()
        self._unsent += self._seal.frame(kind, request, body)
        self._sock.settimeout(timeout)
        try:
            while self._unsent:
                with memoryview(self._unsent) as view:
                    sent = self._sock.send(view[:65536])
                del self._unsent[:sent]
        except TimeoutError:
            raise BootstrapError(
                f"the launcher at {self._address} takes no data (is it stopped?)") from None
        except OSError as error:
            self._lost(error.strerror)

    def _ask(self, kind, body, answer, timeout, what):
        """Send a request and wait for its answer; other answers are stale and dropped."""
        with self._lock:
            deadline = None if timeout is None else monotonic() + timeout
            try:
                return self._round(kind, body, answer, deadline)
            except _Again:
                pass
            # Two seconds more buy an error text that names who is missing.
            try:
                who = self._round(frames.MISSING, b"", frames.VALUE, monotonic() + 2.0)
                who = frames.text_of(who)
            except _Again:
                who = "the launcher does not answer"
        raise BootstrapError(
            f"rank {self.rank} waited {timeout:g} s for {what} ({who}); raise "
            "PYRDV_TIMEOUT_START if they are only slow")

    def _round(self, kind, body, answer, deadline):
        self._request = request = (self._request + 1) & 0x7FFFFFFF
        self._transmit(kind, request, body, None)
        while True:
            found = self._take(request)
            if found is None:
                if deadline is not None and deadline <= monotonic():
                    raise _Again("no answer in time")
                self._receive(None if deadline is None else max(0.001, deadline - monotonic()))
                continue
            got, payload = found
            if got == answer:
                return payload
            if got == frames.ERROR:
                code, rank, text = self._unpack(payload)
                if code == frames.ERROR_PEER:
                    raise PeerLostError(
                        f"{text}: rank {self.rank} cannot go on without it", peer=rank,
                        reason=text)
                raise BootstrapError(text)
            raise BootstrapError(f"the launcher answered with a frame of kind {got}")

    def _receive(self, timeout):
        """Read once; False when nothing is there in time (0.0: now; None: ever)."""
        if self._gone:
            return False
        try:
            # Not MSG_DONTWAIT: with a timeout set, Python would wait for the descriptor first.
            self._sock.settimeout(timeout)
            data = self._sock.recv(65536)
        except (BlockingIOError, TimeoutError):
            return False
        except OSError as error:
            self._lost(error.strerror)
        if not data:
            self._lost("it closed the connection")
        self._reader.feed(data)
        return True

    def _take(self, request):
        """File notices; return (kind, body) of the answer to `request` if it is there."""
        try:
            while (found := self._reader.next()) is not None:
                kind, number, body = found
                if kind == frames.NOTICE:
                    index, rank, text = self._unpack(body)
                    if index >= len(frames.NOTICE_KINDS):
                        raise frames.FrameError(f"notice of kind {index}")
                    self._notices.append((rank, frames.NOTICE_KINDS[index], text))
                elif request is not None and number == request:
                    return kind, body
        except frames.FrameError as error:
            self._lost(f"it sent a broken frame: {error}")
        return None

    def _unpack(self, body):
        try:
            return frames.unpack_kind_rank_text(body)
        except frames.FrameError as error:
            self._lost(f"it sent a broken frame: {error}")

    def _lost(self, why):
        if not self._gone:
            self._gone = True
            self._notices.append((LAUNCHER, "launcher", f"the launcher is gone: {why}"))
        raise BootstrapError(
            f"the launcher of this job at {self._address} is gone ({why}): the job has ended")


class _Again(Exception):
    """Not now; worth another try while there is time."""


def _handshake(sock, launch, deadline):
    """Prove both sides; the reader with whatever came behind WELCOME, and the seal of what is sent.
    """
    reader = frames.Reader(frames.CLIENT_CHALLENGE)
    version = frames.package_version()
    once = frames.nonce()
    hello = frames.pack_hello(launch.secret, launch.rank, launch.size, os.getpid(), launch.job,
                              version, once)
    raw = hello[:-frames.MAC_BYTES]
    try:
        sock.sendall(frames.frame(frames.HELLO, 0, hello))
        challenge = _expect(sock, reader, frames.CHALLENGE, launch, deadline)
        theirs, proof = challenge[:frames.NONCE_BYTES], challenge[frames.NONCE_BYTES:]
        right = frames.server_proof(launch.secret, raw, once, theirs)
        if not frames.same_digest(proof, right):
            raise BootstrapError(
                f"the process listening at {launch.address} does not know this job's secret, so "
                "it is not its launcher; start the program with `pyrdv run`")
        seal, reader.seal = frames.seals(launch.secret, raw, once, theirs)
        reader.accept = frames.CLIENT_WELCOME
        sock.sendall(frames.frame(frames.PROOF, 0, frames.client_proof(
            launch.secret, raw, once, theirs)))
        _expect(sock, reader, frames.WELCOME, launch, deadline)
    except OSError as error:
        raise _Again(error.strerror or "no answer in time") from None
    except frames.FrameError as error:
        raise BootstrapError(
            f"the process listening at {launch.address} does not speak pyrdv's bootstrap "
            f"protocol ({error}); start the program with `pyrdv run`") from None
    reader.accept = frames.CLIENT_OPEN
    return reader, seal


def _expect(sock, reader, kind, launch, deadline):
    while (found := reader.next()) is None:
        left = deadline - monotonic()
        if left <= 0:
            raise _Again("no answer in time")
        sock.settimeout(left)
        data = sock.recv(frames.MAX_HANDSHAKE)
        if not data:
            raise _Again("the launcher closed the connection")
        reader.feed(data)
    got, _, body = found
    if got == frames.REFUSE:
        code, _, text = frames.unpack_kind_rank_text(body)
        raise (VersionError if code == frames.REFUSED_VERSION else BootstrapError)(
            f"{launch.address} refused rank {launch.rank}: {text}")
    if got != kind:
        raise frames.FrameError(f"frame kind {got} is not legal here")
    return body
