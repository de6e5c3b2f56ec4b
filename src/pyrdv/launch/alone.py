"""The bootstrap of a world of one, which has nobody to talk to."""

from pyrdv.errors import BootstrapError


class Alone:
    """The same methods as `bootstrap.Client` for a world of one."""

    def __init__(self, launch):
        self.rank = 0
        self.size = 1
        self._store = {}

    def put(self, key, value):
        """See `Client.put`."""
        self._store[bytes(key)] = bytes(value)

    def get(self, rank, key, timeout=60.0):
        """See `Client.get`; a missing key is an error at once, since nobody else can put it."""
        if rank != 0:
            raise BootstrapError(f"there is no rank {rank} in a job of 1")
        try:
            return self._store[bytes(key)]
        except KeyError:
            raise BootstrapError(f"{key!r} was never put, and no other rank can put it") from None

    def fence(self, timeout=60.0):
        """See `Client.fence`."""

    def exchange(self, value, timeout=60.0):
        """See `Client.exchange`."""
        return [bytes(value)]

    def leave(self, status=0, text=""):
        """See `Client.leave`."""

    def abort(self, code, text=""):
        """See `Client.abort`; there is no launcher: the caller ends the process itself."""

    def report(self, body):
        """See `Client.report`."""

    def close(self):
        """See `Client.close`."""

    def fileno(self):
        """Nothing to wait for: -1."""
        return -1

    def notices(self):
        """No notices: an empty list."""
        return []
