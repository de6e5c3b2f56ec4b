"""The bytes between ranks and launcher: frames, limits and authentication.

Invariants; the tests cite them by number.

B1. A frame is ``length:u32 kind:u8 request:u32 body seal`` in network order; `length` counts the
    body. HELLO, CHALLENGE, PROOF and REFUSE have no seal. The header and the bodies of HELLO and
    REFUSE are the same in every version, so that two versions can always tell each other who they
    are.
B2. Length and kind are checked against what the receiver expects at that moment, before a byte of
    the body is kept. No frame is larger than `MAX_FRAME`, none before authentication larger than
    `MAX_HANDSHAKE`.
B3. Nothing a peer sends before it proved to know the job's secret changes the job's state.
B4. Both sides prove it, each over both nonces and the whole HELLO, under different labels: a
    recorded or reflected proof is worth nothing.
B5. Parsing raises `FrameError` and nothing else, whatever the bytes.
B6. WELCOME and all that follows is sealed: a MAC over the frame and its number, by a key of this
    connection and direction (from the secret, both nonces and the HELLO). So what is changed, left
    out, repeated, or put in on the way ends the connection before it changes anything. Frames are
    not encrypted. Numbers of retired kinds (16 to 18 and 33) are not used again.

Sequence: client HELLO, server CHALLENGE (with its proof), client PROOF, server WELCOME; or at any
point server REFUSE and close. A forged REFUSE can keep a rank from joining, as closing the
connection can; it can do no more.
"""

import os
import struct
import sys
from hashlib import blake2b
from hmac import compare_digest as same_digest

from pyrdv.foreign import shown

MAGIC = b"PYRDV\r\n\x00"
PROTOCOL = 3
WORD = 8 if sys.maxsize > 2**32 else 4
ENDIAN = 1 if sys.byteorder == "little" else 2

MAX_FRAME = 16 << 20
MAX_HANDSHAKE = 512
MAX_VALUE = 1 << 20
MAX_TEXT = 4096
MAX_REPORT = 4105
MAX_RANKS = 1 << 20
SECRET_BYTES = 32
NONCE_BYTES = 16
MAC_BYTES = 32
SEAL_BYTES = 16

HELLO, CHALLENGE, PROOF, WELCOME, REFUSE = 1, 2, 3, 4, 5
EXCHANGE, LEAVE, ABORT, MISSING, REPORT = 19, 20, 21, 22, 23
VALUE, ALL, ERROR, NOTICE = 32, 34, 35, 36

# What each side accepts, and the largest body, in each state (B2).
SERVER_HELLO = {HELLO: MAX_HANDSHAKE}
SERVER_PROOF = {PROOF: MAC_BYTES}
SERVER_OPEN = {
    EXCHANGE: MAX_VALUE, LEAVE: 4 + MAX_TEXT, ABORT: 4 + MAX_TEXT, MISSING: 0,
    REPORT: MAX_REPORT,
}
CLIENT_CHALLENGE = {CHALLENGE: NONCE_BYTES + MAC_BYTES, REFUSE: MAX_HANDSHAKE}
CLIENT_WELCOME = {WELCOME: 4, REFUSE: MAX_HANDSHAKE}
CLIENT_OPEN = {
    VALUE: MAX_VALUE, ALL: MAX_FRAME, ERROR: 5 + MAX_TEXT, NOTICE: 5 + MAX_TEXT,
}

REFUSED_VERSION, REFUSED_RANK = 1, 2
ERROR_PEER, ERROR_USE = 1, 2
NOTICE_KINDS = ("left", "lost", "report")   # the last: say what you wait for

_HEADER = struct.Struct("!IBI")
_HELLO = struct.Struct(f"!8sHBBIII{NONCE_BYTES}s")


class FrameError(ValueError):
    """Bytes that are no legal frame here."""


def frame(kind, request=0, body=b""):
    """One frame as bytes."""
    if len(body) > MAX_FRAME:
        raise FrameError(f"frame of {len(body)} bytes is above the limit of {MAX_FRAME}")
    return _HEADER.pack(len(body), kind, request) + body


class Seal:
    """Marks the frames of one direction of a connection, or checks them; both count alike (B6)."""

    def __init__(self, key):
        self._key = key
        self._number = 0

    def mark(self, framed):
        """The seal of the next frame."""
        digest = blake2b(self._number.to_bytes(8, "big"), key=self._key, digest_size=SEAL_BYTES,
                         person=b"pyrdv frame")
        digest.update(framed)
        self._number += 1
        return digest.digest()

    def frame(self, kind, request=0, body=b""):
        """One sealed frame as bytes."""
        framed = frame(kind, request, body)
        return framed + self.mark(framed)


def seals(secret, hello_raw, client_nonce, server_nonce):
    """The seals of what a rank sends, and of what the launcher sends, on one connection."""
    return tuple(Seal(mac(secret, label, client_nonce, server_nonce, hello_raw))
                 for label in (b"seal of rank", b"seal of server"))


class Reader:
    """Cuts a stream into frames.

    Attributes
    ----------
    accept : dict
        Kind -> largest body; may be changed at any time.
    seal : Seal or None
        Checks all further frames but REFUSE.
    """

    def __init__(self, accept):
        self.accept = accept
        self.seal = None
        self._bytes = bytearray()
        self._at = 0

    def feed(self, data):
        """Add received bytes."""
        self._bytes += data

    def next(self):
        """Return the next frame as (kind, request, body), or None until more bytes come."""
        have = len(self._bytes) - self._at
        if have >= _HEADER.size:
            length, kind, request = _HEADER.unpack_from(self._bytes, self._at)
            limit = self.accept.get(kind)
            if limit is None:
                raise FrameError(f"frame kind {kind} is not legal here")
            if length > limit:
                raise FrameError(f"frame of kind {kind} announces {length} bytes, limit {limit}")
            sealed = self.seal is not None and kind != REFUSE
            if have >= _HEADER.size + length + SEAL_BYTES * sealed:
                start = self._at + _HEADER.size
                end = start + length
                with memoryview(self._bytes) as view:
                    body = bytes(view[start:end])
                    if sealed and not same_digest(self.seal.mark(view[self._at:end]),
                                                  bytes(view[end:end + SEAL_BYTES])):
                        raise FrameError(f"a frame of kind {kind} has a wrong seal: it was "
                                         "changed, repeated or put in on its way")
                self._at = end + SEAL_BYTES * sealed
                return kind, request, body
        if self._at:
            del self._bytes[:self._at]
            self._at = 0
        return None

    def left_over(self):
        """Number of bytes that are no whole frame yet."""
        return len(self._bytes) - self._at


# --- proofs -----------------------------------------------------------------------------------


def mac(secret, label, *parts):
    """Keyed BLAKE2b over `parts`, bound to `label` (at most 16 bytes)."""
    digest = blake2b(key=secret, digest_size=MAC_BYTES, person=label)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.digest()


def nonce():
    """Random bytes that occur once."""
    return os.urandom(NONCE_BYTES)


def package_version():
    """The version of this installation (the package is loaded before any of its modules)."""
    return sys.modules["pyrdv"].__version__


class Hello:
    """What a rank says about itself first; `raw` is its body without the proof."""

    __slots__ = ("protocol", "word", "endian", "rank", "size", "pid", "nonce", "job", "version",
                 "raw")

    def same_build(self, version):
        """Whether the sender can work with this process, which runs `version`."""
        return (self.protocol, self.word, self.endian, self.version) == (
            PROTOCOL, WORD, ENDIAN, version)

    def build(self):
        """Version and machine facts in words."""
        return describe_build(self.version, self.protocol, self.word, self.endian)


def describe_build(version, protocol=PROTOCOL, word=WORD, endian=ENDIAN):
    """Version and machine facts in words, for error texts."""
    order = {1: "little", 2: "big"}.get(endian, f"unknown ({endian})")
    return f"pyrdv {version} (bootstrap protocol {protocol}, {word * 8}-bit, {order}-endian)"


def pack_hello(secret, rank, size, pid, job, version, once, protocol=PROTOCOL, word=WORD,
               endian=ENDIAN):
    """Body of a HELLO; the last four parameters differ from this process only in tests."""
    job = job.encode()
    version = version.encode()
    raw = (_HELLO.pack(MAGIC, protocol, word, endian, rank, size, pid, once)
           + bytes((len(job),)) + job + bytes((len(version),)) + version)
    return raw + mac(secret, b"hello", raw)


def unpack_hello(body, secret):
    """Parse a HELLO and check its proof.

    Returns
    -------
    (Hello, bool)
        The bool says whether the sender's proof is right. (A HELLO can be replayed; only a PROOF
        shows that the sender is there now.)
    """
    if len(body) < _HELLO.size + 2 + MAC_BYTES:
        raise FrameError(f"HELLO of {len(body)} bytes is too short")
    raw, proof = body[:-MAC_BYTES], body[-MAC_BYTES:]
    hello = Hello()
    (magic, hello.protocol, hello.word, hello.endian, hello.rank, hello.size, hello.pid,
     hello.nonce) = _HELLO.unpack_from(raw)
    if magic != MAGIC:
        raise FrameError("HELLO does not begin with pyrdv's magic bytes")
    job, at = _short_text(raw, _HELLO.size)
    version, at = _short_text(raw, at)
    if at != len(raw):
        raise FrameError(f"HELLO has {len(raw) - at} bytes too many")
    hello.job, hello.version, hello.raw = job, version, raw
    return hello, same_digest(proof, mac(secret, b"hello", raw))


def _short_text(raw, at):
    if at >= len(raw) or at + 1 + raw[at] > len(raw):
        raise FrameError("a text field runs past the end of its frame")
    return text_of(raw[at + 1:at + 1 + raw[at]]), at + 1 + raw[at]


def server_proof(secret, hello_raw, client_nonce, server_nonce):
    """What the server shows in CHALLENGE (B4)."""
    return mac(secret, b"server", client_nonce, server_nonce, hello_raw)


def client_proof(secret, hello_raw, client_nonce, server_nonce):
    """What the client shows in PROOF (B4)."""
    return mac(secret, b"client", client_nonce, server_nonce, hello_raw)


# --- bodies -----------------------------------------------------------------------------------


def text_of(data):
    """One line for people from bytes of any kind."""
    return shown(data, MAX_TEXT)


def cut_text(text, limit=MAX_TEXT):
    """Encode a text for the wire, at most `limit` bytes."""
    return text.encode("utf-8", "replace")[:limit]


def _need(body, size, what):
    if len(body) < size:
        raise FrameError(f"{what} of {len(body)} bytes is shorter than {size}")


def pack_number_text(number, text):
    """A signed number and a text: LEAVE, ABORT."""
    return (number & 0xFFFFFFFF).to_bytes(4, "big") + cut_text(text)


def unpack_number_text(body):
    """(number, text) of LEAVE and ABORT."""
    _need(body, 4, "number")
    return int.from_bytes(body[:4], "big", signed=True), text_of(body[4:])


def pack_kind_rank_text(kind, rank, text):
    """A small number, a rank (-1: none) and a text: REFUSE, ERROR, NOTICE."""
    return bytes((kind,)) + (rank & 0xFFFFFFFF).to_bytes(4, "big") + cut_text(text)


def unpack_kind_rank_text(body):
    """(kind, rank, text) of REFUSE, ERROR and NOTICE."""
    _need(body, 5, "message")
    return body[0], int.from_bytes(body[1:5], "big", signed=True), text_of(body[5:])


def pack_all(values):
    """Body of ALL: every rank's value."""
    parts = [len(values).to_bytes(4, "big")]
    for value in values:
        parts += [len(value).to_bytes(4, "big"), value]
    return b"".join(parts)


def unpack_all(body):
    """The list of values of an ALL."""
    _need(body, 4, "ALL")
    count = int.from_bytes(body[:4], "big")
    if count > MAX_RANKS or 4 + 4 * count > len(body):
        raise FrameError(f"ALL announces {count} values in {len(body)} bytes")
    values = []
    at = 4
    for _ in range(count):
        _need(body, at + 4, "ALL")
        length = int.from_bytes(body[at:at + 4], "big")
        at += 4
        _need(body, at + length, "ALL")
        values.append(body[at:at + length])
        at += length
    if at != len(body):
        raise FrameError(f"ALL has {len(body) - at} bytes too many")
    return values
