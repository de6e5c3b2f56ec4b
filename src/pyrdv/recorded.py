"""Events as an engine records them, in its memory and in its file, and as people read them.

The layout is that of ``engine/event.pxd``: an event is a slot of 32 bytes or two.  The file of an
engine has a page of JSON, what `_STATE` describes, the ring of slots, and blocks: slots that were
in the ring before, and lines of the program.  An engine that is killed leaves the file as good as
one that ends, but for what it was about to write.

Numbers are in the byte order of the machine; a file from elsewhere is refused.
"""

import itertools
import os
import stat
import struct
from collections import namedtuple

from pyrdv import files

FORMAT = "pyrdv trace"
VERSION = 2
#: Bytes before the ring.
HEAD = 4096
# Magic number, for the byte order; and where JSON begins.
_MAGIC = struct.Struct("=Q")
_MAGIC_NUMBER = 0x5659_4452_5450_0A02
_STATE = struct.Struct("=QQQQqQqi4x")
_SLOT = struct.Struct("=QIIIiII")
_MORE = struct.Struct("=QIIffiI")
_BLOCK = struct.Struct("=IIQQq")
_NOTHING, _POST, _ANNOUNCE, _MATCH, _UNEXPECTED = 0, 1, 6, 7, 8
_EAGER_SENT, _EAGER_GOT, _EAGER_EARLY, _HAS_MORE = 32, 33, 34, 0x80
_BLOCK_EVENTS, _BLOCK_LINE, _BLOCK_END = 1, 2, 3
_NO_OPERATION = 0xFFFFFFFF
# A clock is compared with the counter over this time at least, ns.
_COMPARED = 1_000_000

#: The kinds of events, by number.
KINDS = {
    1: "post", 2: "choose", 3: "register", 4: "credit wait", 5: "queue", 6: "announce",
    7: "match", 8: "unexpected", 9: "transfer begin", 10: "transfer end", 11: "complete",
    12: "offer sent", 13: "offer used", 14: "offer dropped", 15: "sleep", 16: "wake",
    17: "peer lost", 18: "peer closed", 19: "step by itself",
}

Event = namedtuple("Event", (
    "time", "kind", "side", "operation", "peer", "context", "tag", "nbytes", "number", "protocol",
    "reason", "cost", "instead", "error", "line"))
Event.__doc__ = """What happened once in an engine.

Attributes
----------
time : float
    Seconds of `time.monotonic`.  That of an eager message may be earlier than it was: it is when
    the engine last read the clock (rule T2 of ``engine/trace.pxd``).
kind : str
    A value of `KINDS`.
side : str
    ``send``, ``receive``, ``match`` (a receive that only takes the message) or empty.
operation : tuple of int, int or None
    What tells operations apart.
peer : int
    World rank of the other side; -1: any, or none.
context, tag : int
    Of the message.
nbytes : int
    Length of the message, of the room of a receive that has none yet, or of what moves.
number : int
    Which announcement it is, of those from its sender to its receiver (announce, match,
    unexpected).
protocol, reason : str or None
    As chosen until then; None: not chosen.
cost, instead : float
    Seconds that the choice reckoned with; 0: nothing was compared.
error : int
    Status of `errors.from_status`, or 0.
line : str
    FILE:LINE of the program that posted it; empty: not noted (`Engine.note_lines`).
"""

#: What the numbers in slots mean: side, protocol and reason by number (0: none), those of eager
#: messages (protocol, reason of the sender, reason of the receiver), and lines.
Words = namedtuple("Words", ("sides", "protocols", "reasons", "eager", "lines"))


class Scale:
    """The counter as seconds of the system's clock.

    Parameters
    ----------
    ticks, ns : int
        One moment by both.
    per_tick : float
        Nanoseconds.
    """

    def __init__(self, ticks, ns, per_tick):
        self.ticks, self.ns, self.per_tick = ticks, ns, per_tick

    def seconds(self, ticks):
        """When the counter showed `ticks`."""
        return (self.ns + (ticks - self.ticks) * self.per_tick) * 1e-9


def _signed(value):
    return value - (1 << 32) if value >> 31 else value


def decode(data, words, scale):
    """The events in slots, which begin with a whole one.

    Parameters
    ----------
    data : bytes
    words : Words
    scale : Scale

    Yields
    ------
    Event
    """
    seconds = scale.seconds
    eager, sent_reason, got_reason = words.eager
    at, end = 0, len(data) - _SLOT.size
    while at <= end:
        ticks, waited, peer, context, tag, number, what = _SLOT.unpack_from(data, at)
        at += _SLOT.size
        peer, kind = _signed(peer), what & 0xFF
        if kind == _EAGER_SENT:
            yield Event(seconds(ticks), "announce", "", None, peer, context, tag, what >> 8,
                        number, eager, sent_reason, 0.0, 0.0, 0, "")
        elif kind == _EAGER_GOT:
            # It had no other operation than this, so the message's number tells it apart.
            mine = (-1 - peer, number)
            yield Event(seconds(ticks - waited), "post", "receive", mine, peer, context, tag,
                        what >> 8, 0, None, None, 0.0, 0.0, 0, "")
            yield Event(seconds(ticks), "match", "receive", mine, peer, context, tag, what >> 8,
                        number, eager, got_reason, 0.0, 0.0, 0, "")
        elif kind == _EAGER_EARLY:
            yield Event(seconds(ticks), "unexpected", "", None, peer, context, tag, what >> 8,
                        number, eager, got_reason, 0.0, 0.0, 0, "")
        elif kind & _HAS_MORE:
            if at > end:
                return          # it was about to be written
            length, index, generation, cost, instead, error, line = _MORE.unpack_from(data, at)
            at += _MORE.size
            yield Event(
                seconds(ticks), KINDS[kind & 0x7F], words.sides[what >> 8 & 0xFF],
                None if index == _NO_OPERATION else (index, generation), peer, context, tag,
                length, number, words.protocols.get(what >> 16 & 0xFF),
                words.reasons.get(what >> 24) if what >> 24 else None, cost, instead, error,
                words.lines[line] if line < len(words.lines) else "")
        elif kind != _NOTHING:
            yield Event(seconds(ticks), KINDS[kind], "", None, peer, context, tag, 0, number, None,
                        None, 0.0, 0.0, 0, "")


def kept(count, before, slots):
    """How many of the last slots a ring of `slots` still has, from the begin of an event on.

    Of `count` in all the first `before` are not asked for; that is an even number.
    """
    return count - before if count - before <= slots else slots - (count & 1)


# Files -------------------------------------------------------------------------


def path_of(path, rank):
    """The file of one rank."""
    return f"{path}.{rank}"


def boot():
    """What ranks that read the same clock have in common."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename


def create(path, rank, size, host, words, slots):
    """Make the file of a rank, with `HEAD` bytes and room for a ring of `slots`.

    Returns
    -------
    int
        A descriptor, for `Engine`.

    Raises
    ------
    OSError
    """
    import json  # few programs need it

    name = path_of(path, rank)
    files.demand(name)
    head = {"format": FORMAT, "version": VERSION, "rank": rank, "size": size, "host": host[:256],
            "boot": boot(), "slots": slots, "sides": words.sides, "protocols": words.protocols,
            "reasons": words.reasons, "eager": words.eager}
    text = json.dumps(head).encode()
    if _MAGIC.size + len(text) > HEAD:
        raise OSError(f"the head of {name} has {len(text)} bytes")
    try:
        os.unlink(name)
    except FileNotFoundError:
        pass
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        # Memory that is mapped needs its room on the disk from the start: else a store would kill.
        os.posix_fallocate(fd, 0, HEAD + _STATE.size + slots * _SLOT.size)
        os.write(fd, _MAGIC.pack(_MAGIC_NUMBER) + text.ljust(HEAD - _MAGIC.size))
    except OSError:
        os.close(fd)
        os.unlink(name)
        raise
    return fd


class Recording:
    """What one rank left.

    Parameters
    ----------
    path : str
    rank : int

    Attributes
    ----------
    rank, size : int
    host, boot : str
    ended : bool
        Whether the engine was closed, and not killed.
    dropped : int
        How many slots were lost.
    why : str
        Why the last of them, if a write failed; else empty.
    pairs : list of (int, int)
        Moments by the counter and by the clock, the first and the last.

    Raises
    ------
    files.FileError
    """

    def __init__(self, path, rank):
        self.path = path_of(path, rank)
        self.rank = rank
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
            self._file = os.fdopen(fd, "rb")
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise files.FileError("it is no regular file", read=False)
        except OSError as error:
            raise files.FileError(error.strerror, read=False) from None
        try:
            self._read_head()
            self._read_blocks()
        except (KeyError, TypeError, ValueError, AttributeError, struct.error):
            raise files.FileError("it is not well-formed") from None

    def close(self):
        """Give back the descriptor."""
        self._file.close()

    def _read_head(self):
        data = self._file.read(HEAD + _STATE.size)
        if len(data) < HEAD + _STATE.size or _MAGIC.unpack_from(data)[0] != _MAGIC_NUMBER:
            raise files.FileError("it is no trace of a rank, or of another kind of machine")
        import json

        head = json.loads(data[_MAGIC.size:HEAD].decode())
        if head["format"] != FORMAT or head["version"] != VERSION or head["rank"] != self.rank:
            raise files.FileError("it is no trace of that rank")
        self.size, self.host, self.boot = int(head["size"]), str(head["host"]), str(head["boot"])
        numbered = [{int(number): name for number, name in head[part].items()}
                    for part in ("sides", "protocols", "reasons")]
        self.words = Words(*numbered, tuple(head["eager"]), [""])
        (self._count, written, dropped, ticks, ns, first_ticks, first_ns,
         error) = _STATE.unpack_from(data, HEAD)
        self._slots = int(head["slots"])
        self._kept = kept(self._count, written, self._slots)
        self.dropped = dropped + self._count - written - self._kept
        self.why = os.strerror(error) if error else ""
        self.pairs = [(first_ticks, first_ns), (ticks, ns)]

    def _read_blocks(self):
        self._blocks = []
        self.ended = False
        end = os.fstat(self._file.fileno()).st_size
        at = HEAD + _STATE.size + self._slots * _SLOT.size
        while at + _BLOCK.size <= end:
            self._file.seek(at)
            kind, length, first, ticks, ns = _BLOCK.unpack(self._file.read(_BLOCK.size))
            at += _BLOCK.size
            if at + length > end:
                break           # it was about to be written
            self.pairs.append((ticks, ns))
            if kind == _BLOCK_EVENTS:
                self._blocks.append((at, length))
            elif kind == _BLOCK_LINE:
                self.words.lines.append(self._file.read(length).decode("utf-8", "replace"))
            self.ended = self.ended or kind == _BLOCK_END
            at += length
        self.pairs = [min(self.pairs), max(self.pairs)]

    def scale(self):
        """The counter as seconds, as compared with the clock; None: it ended too early for that."""
        (ticks, ns), (last_ticks, last_ns) = self.pairs
        if last_ns - ns < _COMPARED or last_ticks <= ticks:
            return None
        return Scale(ticks, ns, (last_ns - ns) / (last_ticks - ticks))

    def _parts(self):
        """Pieces of slots, the oldest first."""
        for at, length in self._blocks:
            self._file.seek(at)
            yield self._file.read(length)
        ring = HEAD + _STATE.size
        first = (self._count - self._kept) % self._slots
        for begin, count in ((first, min(self._kept, self._slots - first)),
                             (0, self._kept - min(self._kept, self._slots - first))):
            self._file.seek(ring + begin * _SLOT.size)
            yield self._file.read(count * _SLOT.size)

    def events(self, scale):
        """All events, nearly in order.

        Parameters
        ----------
        scale : Scale

        Returns
        -------
        iterator of Event
        """
        return itertools.chain.from_iterable(
            decode(part, self.words, scale) for part in self._parts())
