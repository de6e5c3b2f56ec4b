"""The bootstrap of a world of one, which has nobody to talk to."""


class Alone:
    """The same methods as `bootstrap.Client` for a world of one."""

    def __init__(self, launch):
        self.rank = 0
        self.size = 1

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
