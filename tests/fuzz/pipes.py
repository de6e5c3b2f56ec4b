"""The superpipeline of the broken peer: rank 1 as a sender and as a receiver of chunks.

Mixed into `Rig`.  It keeps to docs/wire.md (4.2, 6) where a program says ``piped``, ``chunk``,
``grant`` and ``take``; what is odd comes as ordinary ``packet`` steps.
"""

import struct

from pyrdv.instruments.fabric import FENCE

GRANT, CHUNK, TAKEN = 16, 17, 18
PIPED, CHECKED, REFUSED, RTS, DONE = 128, 32, 1, 2, 3
HEADER = struct.Struct("=BBHIiIQQII")
TAIL = struct.Struct("=QQQ")        # address, key, receive
ROOM = 65_536                       # of one of rank 1's three buffers
BUFFERS = 3


def packed(kind, *, flags=0, context=0, tag=0, sequence=0, length=0, cookie=0, credit=0):
    return HEADER.pack(kind, flags, 0, context, tag, sequence & 0xFFFFFFFF, length, cookie, credit,
                       0)


class Into:
    """A message of rank 1 that rank 0 granted."""

    def __init__(self, room, base, wanted, address, key, data):
        self.room, self.base, self.wanted, self.address, self.key = room, base, wanted, address, key
        self.data = data
        self.sent = self.taken = self.at = 0


class OutOf:
    """A message of rank 0 that rank 1 granted."""

    def __init__(self, cookie, length, base):
        self.cookie, self.length, self.base = cookie, length, base
        self.chunks, self.told, self.data = 0, 0, b""


class Pipes:
    """What `Rig` knows of lanes."""

    def start_pipes(self):
        self.piped = {}         # cookie of rank 1 -> data
        self.into = {}          # receive of rank 0 -> Into
        self.out_of = {}        # receive of rank 1 -> OutOf

    def pipe_arrived(self, packet, kind, context, tag, sequence, length, cookie):
        """GRANT, CHUNK or TAKEN from rank 0, which keeps to the rules."""
        if kind == GRANT:
            address, key, receive = TAIL.unpack(packet[40:])
            assert tag == 0, "sim and shm promise no order, so auto asks for no flags"
            self.into[receive] = Into(context, sequence, length, address, key,
                                      self.piped.get(cookie))
        elif kind == CHUNK and cookie in self.out_of:
            one = self.out_of[cookie]
            if packet[1] & REFUSED:
                del self.out_of[cookie]
                return
            at = sequence % BUFFERS * ROOM
            assert 0 < length <= ROOM
            one.data += bytes(self.sink_data[at:at + length])
            one.chunks += 1
        elif kind == TAKEN:
            for one in self.into.values():
                if one.data is not None and self.piped.get(cookie) is one.data:
                    one.taken = max(one.taken, (sequence - one.base) & 0xFFFFFFFF)

    def pipe_legal(self, kind, flags, context, tag, sequence, length, cookie):
        """Whether rank 0 must take a packet with these fields; None: unknown."""
        if kind == GRANT:
            if not context or not length or tag < 0 or tag and (
                    tag < 16 or tag % 8 or tag > context or tag > self.lane_bytes):
                return False
            known = [one for one in self.live if one[0] == cookie and one[2] is not None]
            if self.finished:
                return False
            return None if not known or length <= known[0][1] else False
        if kind == TAKEN:
            return None if any(one.cookie == cookie for one in self.out_of.values()) else False
        one = self.into.get(cookie)
        if one is None or flags and length:
            return False if flags and length else None
        if flags or (sequence - one.base) & 0xFFFFFFFF != one.sent:
            return None
        return True if one.sent - one.taken < BUFFERS and 0 < length <= min(
            one.room, one.wanted - one.at) else None

    def pipe_fields(self, fields):
        """``granted`` chooses a receive; its chunks are numbered from its base and ``ahead``."""
        ahead, known = fields.pop("ahead", 0), list(self.into)
        if (index := fields.pop("granted", None)) is not None and known:
            fields["cookie"] = known[index % len(known)]
            fields["sequence"] = (self.into[fields["cookie"]].base + ahead) & 0xFFFFFFFF

    def do_piped(self, tag, size):
        """A message whose data cannot be read."""
        if self.finished:
            return
        cookie = 1 << 40 | len(self.piped)
        data = self.own[:size].tobytes()
        self.piped[cookie] = data
        self.send(packed(RTS, flags=PIPED, tag=tag, sequence=self.sequence, length=size,
                         cookie=cookie, credit=self.taken & 0xFFFFFFFF) + bytes(16), data)

    def do_chunk(self, size, count):
        """Up to `count` next chunks of up to `size` bytes of each granted message."""
        for receive, one in list(self.into.items()):
            for _ in range(count):
                piece = min(max(size, 1), one.room, one.wanted - one.at)
                if one.data is None or not piece or one.sent - one.taken >= BUFFERS:
                    break
                number = one.base + one.sent
                self.post(
                    self.driver.write_request(self.region, one.at, one.address
                                             + number % BUFFERS * one.room, one.key, piece),
                    self.driver.send_request(
                        packed(CHUNK, sequence=number, length=piece, cookie=receive,
                               credit=self.taken & 0xFFFFFFFF), flags=FENCE))
                one.sent += 1
                one.at += piece
            if one.at == one.wanted:
                del self.into[receive]

    def do_grant(self, index, base):
        """Ask rank 0 to write an announced message into buffers of rank 1, one at a time."""
        known = [one for one in self.live if one[2] is not None and one[1]]
        if not known or self.out_of or self.finished:
            return
        cookie, length, memory = known[index % len(known)]
        receive = 1 << 41 | base
        self.live.remove((cookie, length, memory))
        self.stale.append(cookie)
        self.out_of[receive] = OutOf(cookie, length, base)
        self.post(self.driver.send_request(
            packed(GRANT, context=ROOM, sequence=base, length=length, cookie=cookie,
                   credit=self.taken & 0xFFFFFFFF)
            + TAIL.pack(self.sink.address, self.sink.key, receive)))

    def do_take(self):
        """Tell rank 0 what came of its chunks, and the end."""
        for receive, one in list(self.out_of.items()):
            fields = {"cookie": one.cookie, "credit": self.taken & 0xFFFFFFFF}
            if len(one.data) == one.length:
                del self.out_of[receive]
                assert one.data == self.sent_by_0(one.length)
                self.post(self.driver.send_request(packed(DONE, length=one.length, **fields)))
            elif one.chunks > one.told:
                one.told = one.chunks
                self.post(self.driver.send_request(
                    packed(TAKEN, sequence=one.base + one.told, **fields)))
