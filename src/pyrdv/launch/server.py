"""The launcher's side of the bootstrap: authentication, exchange, notices.

Runs inside the launcher's event loop (`events.Loop`); nothing here blocks. Invariants beyond those
of `frames`:

S1. Connections that have not proved themselves are few and cost little: see `gate`.
S2. A rank has one connection; whoever comes second for it is refused.
S3. An exchange either completes on all ranks or fails on all that wait.
S4. What a rank can make the server hold is bounded: one value to exchange, `MAX_QUEUED` unsent.
"""

import os
from collections import deque
from time import monotonic

from pyrdv.launch import frames
from pyrdv.launch.events import READ, WRITE
from pyrdv.launch.gate import Gate

MAX_QUEUED = 64 << 20
# A connection that ends without LEAVE: the exit status of the process usually follows at once and
# says more, so the others are told after this long.
LOST_AFTER = 0.25


class _Peer:
    """One connection."""

    __slots__ = ("sock", "fd", "where", "since", "reader", "out", "queued", "hello", "challenge",
                 "seal", "rank", "shown")

    def __init__(self, sock, where):
        self.sock = sock
        self.fd = sock.fileno()
        self.where = where
        self.since = monotonic()
        self.reader = frames.Reader(frames.SERVER_HELLO)
        self.out = deque()
        self.queued = 0
        self.hello = None
        self.challenge = b""
        self.seal = None
        self.rank = None
        self.shown = 0  # 0 nothing, 1 a HELLO whose proof is right, 2 authenticated


class Server:
    """Exchange and notice board of one job.

    Parameters
    ----------
    loop : Loop
    size : int
        Number of ranks.
    secret : bytes
        The job's secret, `frames.SECRET_BYTES` long.
    job : str
        Name of the job.
    on_abort, on_report : callable
        ``on_abort(rank, code, text)`` when a rank asks to end the job, ``on_report(rank, body)``
        when it tells of its failure or end (`failures.Report`).
    log : callable
        ``log(text)`` for one line to people.
    host, port : str, int
        Where to listen; port 0 lets the kernel choose.
    max_pending : int
        The most strangers that are connected at a time.

    Raises
    ------
    LaunchError
        The address cannot be had; names address, port and the system's reason.
    """

    def __init__(self, loop, size, secret, job, on_abort, log, host="127.0.0.1", port=0,
                 max_pending=64, version=None, on_report=None):
        self._loop = loop
        self._size = size
        self._secret = secret
        self._job = job
        self._on_abort, self._on_report = on_abort, on_report
        self._log = log
        self._version = version or frames.package_version()
        self._ranks = {}
        self.ended = {}     # rank -> (kind of notice, text), public: how many have ended
        self._joined = set()
        self._inside = {}
        self._gate = Gate(loop, host, port, max_pending, 2 * size + 8, _Peer, self._readable,
                          self._drop, log)
        self.address, self.door = self._gate.address, self._gate.door

    def close(self):
        """Close every connection; ranks take that as the launcher's end."""
        self._gate.close()
        for peer in [*self._gate.pending.values(), *self._ranks.values()]:
            self._close(peer)
        self._gate.pending.clear()
        self._ranks.clear()

    def joined(self, rank):
        """Whether a process has connected as `rank` at any time."""
        return rank in self._joined

    def catch_up(self, rank):
        """Handle what `rank` sent before its process ended: its last words come before its end."""
        peer = self._ranks.get(rank)
        while peer is not None and self._readable(peer):
            pass

    def rank_ended(self, rank, orderly, text):
        """Tell all others that the process of `rank` ended; the first report counts.

        Parameters
        ----------
        rank : int
        orderly : bool
            True gives the notice ``left``, False ``lost``.
        text : str
            What happened, in words that fit behind "rank r".
        """
        if rank in self.ended:
            return
        self.ended[rank] = (frames.NOTICE_KINDS[0 if orderly else 1], text)
        body = self._notice(rank)
        for peer in list(self._ranks.values()):
            if peer.rank != rank:
                self._send(peer, frames.NOTICE, 0, body)
        self._fail_exchange()

    def ask(self):
        """Have each rank say what it waits for, once it looks at its notices; how many hear it."""
        body = frames.pack_kind_rank_text(frames.NOTICE_KINDS.index("report"), -1, "")
        for peer in list(self._ranks.values()):
            self._send(peer, frames.NOTICE, 0, body)
        return len(self._ranks)

    # --- connections ------------------------------------------------------------------------

    def _close(self, peer):
        if peer.fd >= 0:
            self._loop.unwatch(peer.fd)
            peer.sock.close()
            peer.fd = -1

    def _drop(self, peer, why):
        """Close a connection that did something wrong."""
        if peer.rank is None:
            self._gate.forget(peer, why)
            self._close(peer)
        else:
            self._log(f"dropped the connection of rank {peer.rank}: {why}")
            self._gone(peer)

    def _gone(self, peer):
        """An authenticated connection ended."""
        self._close(peer)
        rank = peer.rank
        if self._ranks.get(rank) is peer:
            del self._ranks[rank]
        self._inside.pop(rank, None)
        if rank not in self.ended:
            self._loop.after(LOST_AFTER, lambda: self.rank_ended(
                rank, False, "closed its connection without leaving the job"))

    def _readable(self, peer):
        """Read and serve once; False when nothing is there."""
        if peer.fd < 0:
            return False
        try:
            data = peer.sock.recv(1024 if peer.rank is None else 65536)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            data, why = b"", error.strerror
        else:
            why = "closed without authenticating"
        if not data:
            if peer.rank is None:
                self._drop(peer, why)
            else:
                self._gone(peer)
            return False
        peer.reader.feed(data)
        try:
            while peer.fd >= 0 and (found := peer.reader.next()) is not None:
                self._handle(peer, *found)
        except frames.FrameError as error:
            if peer.fd >= 0:
                self._drop(peer, str(error))
        return True

    def _send(self, peer, kind, request, body=b""):
        if peer.fd < 0:
            return
        data = (peer.seal or frames).frame(kind, request, body)
        peer.out.append(memoryview(data))
        peer.queued += len(data)
        self._flush(peer)
        if peer.queued > MAX_QUEUED:
            self._drop(peer, f"left {peer.queued} bytes of answers unread")

    def _flush(self, peer):
        try:
            while peer.out:
                sent = peer.sock.send(peer.out[0])
                peer.queued -= sent
                if sent < len(peer.out[0]):
                    peer.out[0] = peer.out[0][sent:]
                else:
                    peer.out.popleft()
        except (BlockingIOError, InterruptedError):
            self._loop.watch(peer.fd, READ | WRITE, lambda: self._ready(peer))
            return
        except OSError:
            # The end of the connection shows up as readable as well, and is handled there.
            peer.out.clear()
            peer.queued = 0
        self._loop.watch(peer.fd, READ, lambda: self._readable(peer))

    def _ready(self, peer):
        if peer.fd >= 0:
            self._flush(peer)
            self._readable(peer)

    # --- frames -------------------------------------------------------------------------------

    def _handle(self, peer, kind, request, body):
        if kind == frames.HELLO:
            self._on_hello(peer, body)
        elif kind == frames.PROOF:
            self._on_proof(peer, body)
        elif kind == frames.EXCHANGE:
            self._on_exchange(peer, request, body)
        elif kind == frames.MISSING:
            self._send(peer, frames.VALUE, request, frames.cut_text(self._missing()))
        elif kind == frames.LEAVE:
            status, why = frames.unpack_number_text(body)
            self.rank_ended(peer.rank, status == 0,
                            "left the job in order" if status == 0
                            else why or f"left the job with status {status}")
        elif kind == frames.ABORT:
            self._on_abort(peer.rank, *frames.unpack_number_text(body))
        elif kind == frames.REPORT and self._on_report is not None:
            self._on_report(peer.rank, body)

    def _refuse(self, peer, code, text):
        # 400 bytes leave room for the frame within MAX_HANDSHAKE.
        body = frames.pack_kind_rank_text(code, -1, text)[:400]
        try:
            peer.sock.send(frames.frame(frames.REFUSE, 0, body))
        except OSError:
            pass

    def _on_hello(self, peer, body):
        hello, genuine = frames.unpack_hello(body, self._secret)
        if not hello.same_build(self._version):
            text = (f"rank {hello.rank} runs {hello.build()}, but the launcher runs "
                    f"{frames.describe_build(self._version)}: install one version for the "
                    "launcher and all ranks")
            self._refuse(peer, frames.REFUSED_VERSION, text)
            if genuine:
                self._log(text)
            raise frames.FrameError(f"another version: {hello.build()}")
        if not genuine or hello.job != self._job:
            raise frames.FrameError("its proof is wrong: it does not know this job's secret")
        peer.shown = 1
        peer.hello = hello
        peer.challenge = frames.nonce()
        peer.reader.accept = frames.SERVER_PROOF
        self._send(peer, frames.CHALLENGE, 0, peer.challenge + frames.server_proof(
            self._secret, hello.raw, hello.nonce, peer.challenge))

    def _on_proof(self, peer, body):
        hello = peer.hello
        right = frames.client_proof(self._secret, hello.raw, hello.nonce, peer.challenge)
        if not frames.same_digest(right, body):
            raise frames.FrameError("its proof is wrong: it does not know this job's secret")
        if hello.rank >= self._size or hello.size != self._size:
            text = f"rank {hello.rank} of {hello.size} does not exist in a job of {self._size}"
        elif self.joined(hello.rank) or hello.rank in self.ended:
            text = (f"rank {hello.rank} has already joined, so process {hello.pid} cannot be it; "
                    "one process per rank may use pyrdv")
        else:
            self._admit(peer, hello.rank)
            return
        self._refuse(peer, frames.REFUSED_RANK, text)
        raise frames.FrameError(text)

    def _admit(self, peer, rank):
        self._gate.forget(peer)
        peer.rank = rank
        peer.shown = 2
        peer.reader.accept = frames.SERVER_OPEN
        peer.reader.seal, peer.seal = frames.seals(
            self._secret, peer.hello.raw, peer.hello.nonce, peer.challenge)
        self._ranks[rank] = peer
        self._joined.add(rank)
        self._send(peer, frames.WELCOME, 0, self._size.to_bytes(4, "big"))
        for ended in self.ended:
            self._send(peer, frames.NOTICE, 0, self._notice(ended))

    def _notice(self, rank):
        kind, text = self.ended[rank]
        return frames.pack_kind_rank_text(frames.NOTICE_KINDS.index(kind), rank, text)

    def _error(self, peer, request, code, rank, text):
        self._send(peer, frames.ERROR, request, frames.pack_kind_rank_text(code, rank, text))

    def _on_exchange(self, peer, request, body):
        self._inside[peer.rank] = (request, body, peer)
        if not self._fail_exchange() and len(self._inside) == self._size:
            self._finish_exchange()

    def _finish_exchange(self):
        inside, self._inside = self._inside, {}
        total = 4 + sum(4 + len(value) for _, value, _ in inside.values())
        if total > frames.MAX_FRAME:
            self._fail(inside, frames.ERROR_USE, -1,
                       f"exchange of {total} bytes in all is above the limit of "
                       f"{frames.MAX_FRAME}")
            return
        body = frames.pack_all([inside[rank][1] for rank in range(self._size)])
        for request, _, peer in inside.values():
            self._send(peer, frames.ALL, request, body)

    def _fail_exchange(self):
        """A step that a gone rank can no longer enter fails for all that wait (S3)."""
        gone = [rank for rank in self.ended if rank not in self._inside]
        if not gone or not self._inside:
            return False
        inside, self._inside = self._inside, {}
        self._fail(inside, frames.ERROR_PEER, gone[0], self._why_gone(gone[0]))
        return True

    def _fail(self, inside, code, rank, text):
        for request, _, peer in inside.values():
            self._error(peer, request, code, rank, text)

    def _why_gone(self, rank):
        return f"rank {rank} {self.ended[rank][1]}"

    def _missing(self):
        never = [r for r in range(self._size) if r not in self._ranks and r not in self.ended]
        late = [r for r in self._ranks if r not in self._inside]
        parts = []
        if never:
            parts.append(f"ranks that have not connected: {_few(never)}")
        if late:
            parts.append(f"ranks that have not come to this step: {_few(sorted(late))}")
        return "; ".join(parts) or "no rank is missing"


def _few(ranks):
    shown = ", ".join(map(str, ranks[:16]))
    return f"{shown} and {len(ranks) - 16} more" if len(ranks) > 16 else shown


def new_secret():
    """A fresh job secret."""
    return os.urandom(frames.SECRET_BYTES)
