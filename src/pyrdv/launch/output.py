"""Forward what the ranks write, in whole lines.

Invariants:

O1. Bytes are forwarded unaltered and in order per stream (a prefix apart), and none is lost: not
    when the rank dies, and not when the reader of the launcher's output is slow.
O2. A line up to `LINE_MAX` bytes is never cut by another stream. If a stream leaves a line open
    (no newline before its end, a longer line, a prompt on a terminal) and another one writes, a
    newline is put between.
O3. Memory is bounded: `LINE_MAX`, one read and a traceback (`tracebacks.MOST`) per stream, about
    `HIGH` per sink. Beyond that the launcher stops reading, so the ranks wait, as they would on
    the terminal itself.
O4. Nothing blocks: the launcher's own descriptors are shared with other processes and stay in
    blocking mode, so writes to them are made only when poll(2) says so, and no larger than what
    is then sure to fit.
"""

import os
import stat
from collections import deque
from select import PIPE_BUF

from pyrdv.launch.events import READ, WRITE
from pyrdv.launch.tracebacks import Tracebacks

LINE_MAX = 64 << 10
CHUNK = 64 << 10
HIGH = 256 << 10
LOW = 64 << 10
# On a terminal an unfinished line (prompt, progress bar) is shown after this many seconds.
SHOW_PARTIAL = 0.05


class Sink:
    """One place that the launcher writes to."""

    def __init__(self, loop, fd, on_broken=None):
        self._loop = loop
        self._on_broken = on_broken
        self.fd = fd
        self.queued = 0
        self._queue = deque()
        self._streams = set()
        self._paused = []
        self._open = None  # the stream whose line has no newline yet
        self.broken = False
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            self.broken = True
            mode = 0
        self.is_tty = not self.broken and os.isatty(fd)
        # A regular file never makes a writer wait.
        self._most = CHUNK if stat.S_ISREG(mode) else PIPE_BUF

    @property
    def full(self):
        """Whether streams should stop reading for now (O3)."""
        return self.queued >= HIGH

    def attach(self, stream):
        """Remember a stream, to close it if this sink breaks."""
        self._streams.add(stream)

    def put(self, stream, data):
        """Queue `data`: whole lines, or (at the end, or too long) a piece of one."""
        if self.broken or not data:
            return
        if self._open is not None and self._open is not stream:
            data = b"\n" + data
        self._open = None if data.endswith(b"\n") else stream
        if not self._queue:
            self._loop.watch(self.fd, WRITE, self._writable)
        self._queue.append(memoryview(data))
        self.queued += len(data)

    def pause(self, stream):
        """Have `stream.resume` called once there is room."""
        self._paused.append(stream)

    def _writable(self):
        try:
            sent = os.write(self.fd, self._queue[0][:self._most])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._break()
            if self._on_broken is not None:
                self._on_broken(self, error)
            return
        self.queued -= sent
        if sent == len(self._queue[0]):
            self._queue.popleft()
        else:
            self._queue[0] = self._queue[0][sent:]
        if not self._queue:
            self._loop.unwatch(self.fd)
        if self.queued <= LOW:
            paused, self._paused = self._paused, []
            for stream in paused:
                stream.resume()

    def _break(self):
        """Nobody reads any more: let the ranks see it, as if they wrote there themselves."""
        self.broken = True
        self._loop.unwatch(self.fd)
        self._queue.clear()
        self.queued = 0
        self._paused = []
        for stream in list(self._streams):
            stream.close()


class Stream:
    """The read end of a rank's standard output or error."""

    def __init__(self, loop, fd, sink, prefix=b"", tracebacks=False):
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._sink = sink
        self._prefix = prefix
        self._partial = bytearray()
        self._mid_line = False  # the last piece given to the sink had no newline
        self._waiting = False
        self._process_ended = False
        self._timer = None
        self._held = Tracebacks(loop, self._emit) if tracebacks else None
        self._pass = self._held.feed if tracebacks else self._emit
        self.done = False  # everything the rank wrote has been given to the sink
        sink.attach(self)
        loop.watch(fd, READ, self._readable)

    def process_ended(self):
        """The rank is dead: what it wrote is in the pipe now; read that, but wait for no more.

        Its own children may hold the pipe open; what they write is forwarded while the job lasts.
        """
        self._process_ended = True
        self._settle()

    def resume(self):
        """The sink has room again."""
        self._waiting = False
        if self._fd >= 0:
            self._loop.watch(self._fd, READ, self._readable)
            if self._process_ended:
                self._settle()

    def close(self):
        """Give what is left to the sink and close."""
        if self._fd >= 0:
            self._loop.cancel(self._timer)
            self._loop.unwatch(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._pass(bytes(self._partial))
            self._partial.clear()
            self._flush()
        self.done = True

    def _flush(self):
        if self._held is not None:
            self._held.flush()

    def _settle(self):
        while self._fd >= 0 and not self._waiting and not self.done:
            if not self._readable():
                self._flush()
                self.done = True

    def _readable(self):
        """Read once; False when nothing is there."""
        try:
            data = os.read(self._fd, CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            self.close()
            return True
        start = len(self._partial)
        self._partial += data
        end = self._partial.rfind(b"\n", start) + 1
        if end == 0 and len(self._partial) > LINE_MAX:
            end = len(self._partial)
        if end:
            self._pass(bytes(memoryview(self._partial)[:end]))
            del self._partial[:end]
        if self._partial and self._sink.is_tty and self._timer is None:
            self._timer = self._loop.after(SHOW_PARTIAL, self._show_partial)
        if self._sink.full and self._fd >= 0:
            self._waiting = True
            self._loop.unwatch(self._fd)
            self._sink.pause(self)
        return True

    def _show_partial(self):
        self._timer = None
        self._pass(bytes(self._partial))
        self._partial.clear()

    def _emit(self, data):
        if not data:
            return
        if self._prefix:
            lines = data.split(b"\n")
            last = lines.pop()
            text = b"".join(self._prefix + line + b"\n" for line in lines)
            if last:
                text += self._prefix + last
            was_mid_line, self._mid_line = self._mid_line, bool(last)
            data = text[len(self._prefix):] if was_mid_line else text
        self._sink.put(self, data)


def sinks(loop, on_broken=None):
    """Sinks for descriptors 1 and 2: one and the same if both lead to the same place (O2).

    ``on_broken(sink, error)`` is called when one cannot be written any more.
    """
    out = Sink(loop, 1, on_broken)
    try:
        first, second = os.fstat(1), os.fstat(2)
        same = (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
    except OSError:
        same = False
    return out, out if same else Sink(loop, 2, on_broken)
