"""Ranks that somebody else started meet at an address they were all told, as torchrun has it.

Rank 0 is the launcher of the bootstrap as well: a thread of it serves the others until all have
left, sleeping nearly all of that time. So rank 0 stays until the last rank has left, and the job
ends when rank 0 dies.

MASTER_PORT itself belongs to whoever made the variables; ranks meet at the next port.
"""

import os
import sys
from threading import Thread
from time import monotonic, sleep

from pyrdv.errors import BootstrapError
from pyrdv.foreign import shown
from pyrdv.launch import bootstrap, dialing, server
from pyrdv.launch.events import Loop


class Host:
    """The launcher's side, in a thread of rank 0.

    Raises
    ------
    LaunchError
        The address cannot be had.
    """

    def __init__(self, launch):
        host, _, port = launch.address.rpartition(":")
        self._loop = Loop()
        self._size = launch.size
        self._aborted = False
        self._server = server.Server(
            self._loop, launch.size, launch.secret, launch.job, self._on_abort,
            lambda text: print(f"pyrdv: {shown(text, 8192)}", file=sys.stderr),
            host.strip("[]"), int(port))
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _on_abort(self, rank, code, text):
        print(f"pyrdv: rank {rank} ends the job with status {code}: {shown(text, 8192)}",
              file=sys.stderr)
        self._aborted = True

    def _run(self):
        while not self._aborted and len(self._server.ended) < self._size:
            self._loop.turn()
        self._server.close()

    def wait(self):
        """Wait until every rank has left; an interrupt ends the wait."""
        while self._thread.is_alive():
            self._thread.join(1.0)


class HostingClient:
    """The client of rank 0, whose orderly end waits for that of the others."""

    def __init__(self, client, host):
        self._client = client
        self._host = host
        self._pid = os.getpid()

    def __getattr__(self, name):
        return getattr(self._client, name)

    def leave(self, status=0, text=""):
        """See `bootstrap.Client.leave`; with status 0 wait until all ranks have left."""
        if os.getpid() == self._pid and self._host is not None:
            host, self._host = self._host, None
            self._client.leave(status, text)
            if status == 0:
                host.wait()


def connect(launch, timeout):
    """Join the job; the first rank opens it.

    Parameters
    ----------
    launch : pyrdv.launch.env.Launch
    timeout : float
        Seconds, in all.

    Raises
    ------
    LaunchError, BootstrapError
    """
    if launch.rank == 0:
        host = Host(launch)
        return HostingClient(bootstrap.Client.connect(launch, timeout), host)
    deadline = monotonic() + timeout
    while True:
        try:
            return bootstrap.Client.connect(launch, max(0.1, deadline - monotonic()))
        except BootstrapError as error:
            # Rank 0 may not be there yet.
            if monotonic() + 0.05 > deadline or not isinstance(error, dialing.Unreachable):
                raise BootstrapError(
                    f"{error}; RANK={launch.rank} and WORLD_SIZE={launch.size} say that rank 0 "
                    f"waits at {launch.address}: unset RANK for a single process") from None
        sleep(0.05)
