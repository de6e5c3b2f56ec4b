"""One process of a job, as its launcher sees it."""

import os
import signal


class Rank:
    """One process of the job."""

    __slots__ = ("number", "pid", "streams", "ended", "status")

    def __init__(self, number, pid, streams):
        self.number = number
        self.pid = pid
        self.streams = streams
        self.ended = False
        self.status = None

    def signal(self, which):
        """Signal the rank and its own children."""
        try:
            os.killpg(self.pid, which)
        except (ProcessLookupError, PermissionError):
            pass

    def look(self):
        """Whether the process has ended since the last look; sets `status` (-s for signal s)."""
        if self.ended:
            return False
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return False
        self.ended = True
        killed = found.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
        self.status = -found.si_status if killed else found.si_status
        return True

    def how_ended(self):
        """Words that fit behind "rank r"."""
        if self.status >= 0:
            return f"ended with status {self.status}"
        return f"was killed by signal {-self.status} ({signal_name(-self.status)})"


def signal_name(number):
    """SIGTERM and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
