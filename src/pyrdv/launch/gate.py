"""The launcher's port before anybody has proved anything: who comes in, and what that may cost.

G1. A rank on the launcher's machine comes by a private door (`pyrdv.doors`), where nobody else can
    come. The TCP port is for all others, and for ranks that cannot find the door.
G2. A connection is read as soon as it is accepted, for a rank's HELLO is there by then or comes at
    once. Whoever showed a HELLO with the job's secret is no stranger any more.
G3. At most `limit` strangers are connected at a time. When one more comes, the one that came first
    is read once more and then goes; a rank to which this happens tries again until its own timeout.
    A stranger never takes the place of one that showed a HELLO, of which at most `genuine` stay.
G4. Strangers cost a bounded time: after STRANGERS of them, each within a WINDOW of the one before,
    the port is left alone for a WINDOW. Those who have joined, and the door, do not wait for it.
"""

import os
from socket import (
    AF_INET,
    AF_INET6,
    IPPROTO_TCP,
    SO_REUSEADDR,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    socket,
)
from time import monotonic

from pyrdv import doors
from pyrdv.errors import LaunchError
from pyrdv.launch.events import READ

HANDSHAKE_SECONDS = 5.0
BACKLOG = 4096
STRANGERS = 64
WINDOW = 0.02


class Gate:
    """Listens, and holds the connections that have not proved themselves.

    Parameters
    ----------
    loop : Loop
    host, port : str, int
        Where to listen; port 0 lets the kernel choose.
    limit, genuine : int
        The most connections of strangers, and of those that showed a HELLO.
    make : callable
        ``make(sock, where)`` gives an object with `fd`, `since`, `shown`, `rank` (None).
    read : callable
        ``read(peer)`` reads and serves once; False when nothing is there.
    drop : callable
        ``drop(peer, why)`` closes a connection and calls `forget`.
    log : callable
        ``log(text)`` for one line to people.

    Raises
    ------
    LaunchError
        The address cannot be had; names address, port and the system's reason.
    """

    def __init__(self, loop, host, port, limit, genuine, make, read, drop, log):
        self._loop = loop
        self._limits = (limit, genuine)
        self._make, self._read, self._drop, self._log = make, read, drop, log
        self.pending = {}   # descriptor -> connection; insertion order is age
        self._strangers = 0
        self._latest = 0.0
        self._strays, self._stray = 0, ""
        self._next_report = 0.0
        self._sweep = self._rest = None
        self._port = _listen(host, port)
        self._door, self._place = None, -1
        name = f"pyrdv-{os.urandom(16).hex()}"
        opened = doors.open_private(SOCK_STREAM, name)
        self.door = ""
        if opened is not None:
            self._door, self._place = socket(fileno=opened[0]), opened[1]
            self.door = f"{doors.path_to(os.getpid(), self._place)} {name}"
            self._watch(self._door)
        bound = self._port.getsockname()
        self.address = f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
        self._watch(self._port)

    def close(self):
        """Stop listening, and say what was not said yet; `pending` is the caller's."""
        self._loop.cancel(self._sweep)
        self._loop.cancel(self._rest)
        if self._strays:
            self._next_report = 0.0
            self._report()
        for listener in filter(None, (self._port, self._door)):
            self._loop.unwatch(listener.fileno())
            listener.close()
        if self._place >= 0:
            os.close(self._place)
            self._place = -1

    def forget(self, peer, why=None):
        """It is no longer among the unknown; `why`: as one that was dropped."""
        self.pending.pop(peer.fd, None)
        if why is None:
            self._strangers = max(0, self._strangers - 1)
        else:
            self._strays += 1
            self._stray = f"from {peer.where}: {why}"
            self._report()

    # --- accepting --------------------------------------------------------------------------

    def _watch(self, listener):
        if listener.fileno() >= 0:
            self._loop.watch(listener.fileno(), READ, lambda: self._accept(listener))

    def _accept(self, listener):
        for _ in range(STRANGERS):
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors, or the stranger is gone already. Making room is all we can
                # do; with nobody to drop, wait a little instead of spinning on the listener.
                if not self._make_room():
                    self._loop.unwatch(listener.fileno())
                    self._loop.after(0.05, lambda: self._watch(listener))
                return
            self._take(sock, f"{address[0]}:{address[1]}" if address else "this machine",
                       listener is self._port)
            if listener is self._port and self._tired():
                return

    def _take(self, sock, where, tcp):
        sock.setblocking(False)
        if tcp:
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        peer = self._make(sock, where)
        self.pending[peer.fd] = peer
        self._strangers += tcp
        self._loop.watch(peer.fd, READ, lambda: self._read(peer))
        if self._sweep is None:
            self._sweep = self._loop.after(HANDSHAKE_SECONDS, self._drop_stalled)
        self._read(peer)
        if len(self.pending) <= min(self._limits):
            return
        for shown, limit in enumerate(self._limits):
            alike = [one for one in self.pending.values() if min(one.shown, 1) == shown]
            if len(alike) > limit:
                self._turn_out(alike[0])

    def _tired(self):
        """Whether enough strangers came for now (G4)."""
        now = monotonic()
        if now - self._latest >= WINDOW:
            self._strangers = 1
        self._latest = now
        if self._strangers < STRANGERS:
            return False
        self._loop.unwatch(self._port.fileno())
        self._rest = self._loop.after(WINDOW, self._rested)
        return True

    def _rested(self):
        self._strangers = 0
        self._watch(self._port)

    def _turn_out(self, peer):
        shown = peer.shown
        self._read(peer)
        if peer.fd >= 0 and peer.shown == shown:
            self._drop(peer, "made room for newer connections")

    def _make_room(self):
        if not self.pending:
            return False
        self._drop(min(self.pending.values(), key=lambda peer: peer.shown),
                   "made room for newer connections")
        return True

    def _drop_stalled(self):
        now = monotonic()
        for peer in list(self.pending.values()):
            if now - peer.since >= HANDSHAKE_SECONDS:
                self._drop(peer, f"did not authenticate within {HANDSHAKE_SECONDS:g} s")
        self._sweep = None
        if self.pending:
            oldest = min(peer.since for peer in self.pending.values())
            self._sweep = self._loop.after(
                max(0.01, oldest + HANDSHAKE_SECONDS - now), self._drop_stalled)

    def _report(self):
        """One line at most every 10 s, however many strangers come."""
        now = monotonic()
        if now >= self._next_report:
            self._next_report = now + 10.0
            more = f" (and {self._strays - 1} before it)" if self._strays > 1 else ""
            self._strays = 0
            self._log(f"dropped a connection to the job's port {self._stray}{more}; "
                      "the job is not affected")


def _listen(host, port):
    sock = socket(AF_INET6 if ":" in host else AF_INET, SOCK_STREAM)
    try:
        sock.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise LaunchError(
            f"cannot listen on {host} port {port}: {error.strerror} (errno {error.errno}); "
            "choose another address, or port 0 for any free one"
        ) from None
    sock.setblocking(False)
    return sock
