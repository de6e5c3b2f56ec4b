"""What is typed while a job runs."""

import os
import termios
from fcntl import ioctl
from select import PIPE_BUF

from pyrdv.launch.events import READ, WRITE


class TerminalInput:
    """Copies the launcher's terminal to rank 0, and gives back what it did not read.

    The ranks are in process groups of their own and may not read the terminal themselves. Reads
    only while the launcher is in the foreground (else the system would stop it) and only what
    rank 0 has room for.

    Parameters
    ----------
    loop : Loop
    source, target : int
        Both ends of the pipe that is rank 0's standard input; this object owns them.
    """

    def __init__(self, loop, source, target):
        os.set_blocking(target, False)
        self._loop = loop
        self._source = source
        self._target = target
        self._data = b""
        loop.watch(0, READ, self._readable)

    def _readable(self):
        if not _foreground():
            self._loop.unwatch(0)
            self._loop.after(0.5, self._again)
            return
        try:
            self._data = os.read(0, PIPE_BUF)
        except OSError:
            self._data = b""
        if not self._data:
            self.stop()
            return
        self._loop.unwatch(0)
        self._loop.watch(self._target, WRITE, self._writable)

    def _again(self):
        if self._target >= 0:
            self._loop.watch(0, READ, self._readable)

    def _writable(self):
        try:
            self._data = self._data[os.write(self._target, self._data):]
        except BlockingIOError:
            return
        if not self._data:
            self._loop.unwatch(self._target)
            self._loop.watch(0, READ, self._readable)

    def stop(self):
        """Read no more: the input is at its end, or rank 0 is."""
        if self._target >= 0:
            self._loop.unwatch(0)
            self._loop.unwatch(self._target)
            os.close(self._target)
            self._target = -1

    def close(self, give_back):
        """The job is over; what rank 0 did not read is for whoever reads the terminal next."""
        self.stop()
        if self._source < 0:
            return
        unread = b""
        os.set_blocking(self._source, False)
        try:
            while data := os.read(self._source, PIPE_BUF):
                unread += data
        except BlockingIOError:
            pass  # a process that rank 0 left behind may write there
        os.close(self._source)
        self._source = -1
        if give_back:
            _type(unread + self._data)


def _foreground():
    return os.tcgetpgrp(0) == os.getpgrp()


def _type(data):
    """Put bytes into the terminal's input, as if they were typed now, but not shown again.

    Systems may forbid it (dev.tty.legacy_tiocsti=0); then they are lost.
    """
    try:
        if not data or not _foreground():
            return
        before = termios.tcgetattr(0)
        silent = list(before)
        silent[3] &= ~(termios.ECHO | termios.ECHONL)
        termios.tcsetattr(0, termios.TCSANOW, silent)
        try:
            for at in range(len(data)):
                ioctl(0, termios.TIOCSTI, data[at:at + 1])
        finally:
            termios.tcsetattr(0, termios.TCSANOW, before)
    except (OSError, termios.error):
        pass
