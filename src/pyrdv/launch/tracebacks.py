"""Tracebacks of one rank in one piece.

Python writes a traceback line by line, and ranks that fail fail together: without this, their
tracebacks would come out cut into each other. What begins like a traceback is held back until it
is whole and nothing more has come for `SETTLE` seconds (chained ones follow), or the rank has
ended. All else passes at once. A part longer than `MOST`, or one that goes on for more than
`PATIENCE` seconds, passes as it is.
"""

SETTLE = 0.2
PATIENCE = 5.0
MOST = 256 << 10
_BEGIN = (b"Traceback (most recent call", b"Exception in thread ", b"Exception ignored ",
          b"Fatal Python error", b'  File "', b"  + Exception Group Traceback")
_CHAIN = (b"During handling of the above exception", b"The above exception was the direct cause")


class Tracebacks:
    """Stands between a stream of whole lines and its outlet.

    Parameters
    ----------
    loop : Loop
    emit : callable
        ``emit(data)`` passes bytes on.
    """

    def __init__(self, loop, emit):
        self._loop = loop
        self._emit = emit
        self._held = bytearray()
        self._whole = False
        self._timer = None

    def feed(self, data):
        """Pass on, or hold back, lines; the last may lack its newline."""
        if not self._held:
            at = _begin(data)
            if at < 0:
                self._emit(data)
                return
            if at:
                self._emit(data[:at])
            data = data[at:]
            # A stack without a heading may be all that there is, and at its end.
            self._whole = data.startswith(b"  File")
            self._wait(SETTLE if self._whole else PATIENCE)
        for line in data.splitlines(keepends=True):
            self._held += line
            if line.startswith(_BEGIN) or line.startswith(_CHAIN):
                if self._whole:
                    self._whole = False
                    self._wait(PATIENCE)
            elif line.strip() and not line.startswith((b" ", b"\t")) and not self._whole:
                self._whole = True
                self._wait(SETTLE)
        if len(self._held) > MOST:
            self.flush()

    def flush(self):
        """Pass on what is held back."""
        self._loop.cancel(self._timer)
        self._timer = None
        if self._held:
            data, self._held, self._whole = bytes(self._held), bytearray(), False
            self._emit(data)

    def _wait(self, seconds):
        self._loop.cancel(self._timer)
        self._timer = self._loop.after(seconds, self.flush)


def _begin(data):
    """Where a line begins that may open a traceback; -1: nowhere."""
    found = [0] if data.startswith(_BEGIN) else []
    found += [at + 1 for word in _BEGIN if (at := data.find(b"\n" + word)) >= 0]
    return min(found, default=-1)
