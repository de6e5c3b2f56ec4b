"""Connects this process's terminal with a guest's: raw bytes both ways, restored afterwards."""

import os
import pty
import select
import sys
import termios
import threading
import tty

# Ctrl-] ends a guest that no longer listens.
ESCAPE = b"\x1d"


class Terminal:
    """A pseudo terminal whose far end, `guest`, a machine gives to its guest.

    Used as a context manager.  `on_escape` is called, in another thread, when Ctrl-] is typed.
    """

    def __init__(self, on_escape):
        self._on_escape = on_escape
        self._near, self.guest = pty.openpty()
        tty.setraw(self.guest)
        self._stop_read, self._stop_write = os.pipe()
        self._saved = None
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def __enter__(self):
        if sys.stdin.isatty():
            self._saved = termios.tcgetattr(0)
            tty.setraw(0)
        self._thread.start()
        return self

    def __exit__(self, *_):
        os.close(self._stop_write)
        self._thread.join()
        if self._saved is not None:
            termios.tcsetattr(0, termios.TCSAFLUSH, self._saved)
        for number in (self._near, self.guest, self._stop_read):
            os.close(number)

    def _copy(self):
        sources = [0, self._near, self._stop_read]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if self._near in ready:
                os.write(1, os.read(self._near, 65536))
            elif self._stop_read in ready:
                return
            if 0 in ready:
                data = os.read(0, 4096)
                if ESCAPE in data:
                    self._on_escape()
                if not data:
                    # The end of a file becomes the end of input of the guest's shell.
                    sources.remove(0)
                    data = b"\x04"
                os.write(self._near, data.replace(ESCAPE, b""))
