"""A peer that keeps to no rule, written with pyverbs and nothing of pyrdv.

Run by the system's interpreter, which has pyverbs, as ``hostile.py ORDER``, in JSON: `address`
and `port` of the listener under attack, `source` (own address), `token` (hexadecimal secret of the
job), `rank` of the target.  Each line of standard input is an act, ``NAME RANK``: it is played as
that rank of the job.  Answered by one line of JSON.

The formats are those of docs/wire.md, written down a second time here.
"""

import hashlib
import json
import os
import signal
import struct
import sys
import time

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
from pyverbs.cq import CQ
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPCap, QPInitAttr

MAGIC, VERSION = 0x56445250, 1
REQUEST, REPLY, HELLO = 0x71, 0x72, 0x73
DATA, BYE, KIND_HELLO, CREDIT, GRANT, SLEEP, ASLEEP = range(1, 8)
SLOT, RECEIVES, CONTROL = 16512, 32, 8
RING_SLOTS, RING_SLOT, RING_TAIL = 32, 256, 24
HEAD = struct.Struct("<IIIBBH")
TAIL = struct.Struct("<IIIIII")
OFFER = struct.Struct("<QQIIIIII")
ENGINE = struct.Struct("<BBHIiIQQII")
EAGER, RTS = 1, 2


# --- the keyed checksum: SipHash-2-4 with 128 bits of output ----------------------------------

MASK = (1 << 64) - 1


def _left(value, bits):
    return (value << bits | value >> 64 - bits) & MASK


def _rounds(v, count):
    a, b, c, d = v
    for _ in range(count):
        a, c = (a + b) & MASK, (c + d) & MASK
        b, d = _left(b, 13) ^ a, _left(d, 16) ^ c
        a = _left(a, 32)
        c, a = (c + b) & MASK, (a + d) & MASK
        b, d = _left(b, 17) ^ c, _left(d, 21) ^ a
        c = _left(c, 32)
    return a, b, c, d


def siphash(key, data):
    """16 bytes for 16 bytes of key and any data."""
    low, high = struct.unpack("<QQ", key)
    v = (low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D ^ 0xEE,
         low ^ 0x6C7967656E657261, high ^ 0x7465646279746573)
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for word, in struct.iter_unpack("<Q", padded):
        v = _rounds((v[0], v[1], v[2], v[3] ^ word), 2)
        v = (v[0] ^ word, *v[1:])
    v = _rounds((v[0], v[1], v[2] ^ 0xEE, v[3]), 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v = _rounds((v[0], v[1] ^ 0xDD, v[2], v[3]), 4)
    return struct.pack("<QQ", first, v[0] ^ v[1] ^ v[2] ^ v[3])


def crc32c(data):
    """The checksum of ring slots."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# --- one connection ---------------------------------------------------------------------------

class Link:
    """A connection to the target as rank `rank`; nothing is sent by itself."""

    def __init__(self, order, rank):
        self.order, self.rank, self.target = order, rank, order["rank"]
        self.token = bytes.fromhex(order["token"])
        low, high = sorted((rank, self.target))
        self.key = self._derive(f"pair {low} {high}")
        self.job = self._derive("job")[:8]
        self.nonce = os.urandom(7) + b"\1"
        self.sequence = self.ring_sent = self.taken = 0
        self.regions, self.offer, self.reject = [], None, None
        self.find(order)
        self.cq = CQ(self.id.context, 512)
        self.id.create_qp(QPInitAttr(
            qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, sq_sig_all=1,
            cap=QPCap(max_send_wr=200, max_recv_wr=100, max_send_sge=1, max_recv_sge=1)))
        for _ in range(RECEIVES + CONTROL):
            region = self.memory(bytes(SLOT))
            self.id.post_recv(region)
        self.shared = self.memory(bytes(16384), self.id.reg_read)

    def find(self, order):
        """Resolve the way to the listener under attack."""
        self.channel = CMEventChannel()
        self.id = CMID(creator=self.channel)
        self.id.resolve_addr(AddrInfo(src=order["source"], dst=order["address"],
                                      dst_service=str(order["port"]), port_space=ce.RDMA_PS_TCP),
                             2000)
        self.event()
        self.id.resolve_route(2000)
        self.event()

    def _derive(self, what):
        text = b"pyrdv verbs " + what.encode() + b" " + self.token
        return hashlib.blake2b(text, digest_size=16).digest()

    def memory(self, data, register=None):
        """Registered memory that holds `data`."""
        region = (register or self.id.reg_msgs)(max(len(data), 8))
        region.write(data, len(data))
        self.regions.append(region)
        return region

    def event(self):
        """The next event: its name without the prefix, and its private data."""
        event = CMEvent(self.channel)
        answer = event.event_str().removeprefix("RDMA_CM_EVENT_"), bytes(event.private_data or b"")
        event.ack_cm_event()
        return answer

    # What is said before the first packet

    def request(self, *, magic=MAGIC, version=VERSION, source=None, target=None, job=None,
                key=None):
        """Private data of a request."""
        source = self.rank if source is None else source
        target = self.target if target is None else target
        text = struct.pack("<IIII", magic, version, source, target) + (job or self.job) + self.nonce
        text += struct.pack("<II", 0, 0)
        return text + siphash(key or self.key, struct.pack("<I", REQUEST) + text)

    def connect(self, request):
        """Send a request; returns the event that answers it.  Fills `offer` or `reject`."""
        parameters = ConnParam(resources=16, depth=16, retry=3, rnr_retry=0,
                               data_len=len(request))
        if request:
            parameters.set_private_data(request)
        try:
            self.id.connect(parameters)
            name, data = self.event()
        except PyverbsError as error:
            return f"failed: {error}"
        if name == "REJECTED" and len(data) >= 16:
            magic, version, reason, _ = struct.unpack_from("<IIII", data)
            self.reject = {"magic": magic == MAGIC, "version": version, "reason": reason}
        if name == "ESTABLISHED":
            magic, version = struct.unpack_from("<II", data)
            self.peer_nonce, offer, mac = data[8:16], data[16:56], data[56:72]
            assert (magic, version, mac) == (MAGIC, VERSION, self.proof(REPLY, offer)), data
            self.offer = dict(zip(
                ("control", "ring", "control_key", "ring_key", "receives", "slot", "crc", "zero"),
                OFFER.unpack(offer), strict=True))
        return name

    def proof(self, label, offer, key=None):
        """What both sides' checksums cover after the request."""
        return siphash(key or self.key, struct.pack("<IIII", label, VERSION, self.rank, self.target)
                       + self.nonce + self.peer_nonce + offer)

    def own_offer(self, **other):
        """Our offer, with some fields changed."""
        values = {"control": self.shared.buf, "ring": 0, "control_key": self.shared.rkey,
                  "ring_key": 0, "receives": RECEIVES, "slot": SLOT, "crc": 0, "zero": 0, **other}
        return OFFER.pack(*values.values())

    def hello(self, offer=None, key=None):
        """The first packet."""
        offer = offer or self.own_offer()
        self.packet(KIND_HELLO, offer + self.proof(HELLO, offer, key))

    def open(self):
        """All of it as it should be."""
        assert self.connect(self.request()) == "ESTABLISHED"
        self.hello()
        return self

    # Packets

    def raw(self, data):
        """SEND these bytes."""
        self.id.post_send(self.memory(data), e.IBV_SEND_SIGNALED, len(data))

    def packet(self, kind, payload=b"", *, sequence=None, freed=0, ring_freed=0, version=VERSION,
               reserved=0):
        """SEND a packet; those that are numbered get the next number."""
        if sequence is None:
            sequence = 0
            if kind in (DATA, BYE):
                self.sequence += 1
                sequence = self.sequence
        self.raw(HEAD.pack(sequence, freed, ring_freed, kind, version, reserved) + payload)

    def engine(self, kind, number, length, *, flags=0, reserved=0, context=0, tag=0, cookie=0,
               credit=0, zero=0, more=b""):
        """A packet of the engine, as payload."""
        return ENGINE.pack(kind, flags, reserved, context, tag, number, length, cookie, credit,
                           zero) + more

    def message(self, number, text=b"hostile"):
        """A proper message."""
        self.packet(DATA, self.engine(EAGER, number, len(text), more=text))

    def into_ring(self, data, at):
        """RDMA write into the target's ring, at this offset."""
        self.id.post_write(self.memory(data), len(data), self.offer["ring"] + at,
                           self.offer["ring_key"], e.IBV_SEND_SIGNALED)

    def ring_slot(self, payload, *, sequence=None, length=None, freed=0, ring_freed=0, reserved=0,
                  crc=None):
        """A packet by the ring, in the next slot."""
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        padded = payload + bytes(-len(payload) % 8)
        fields = [freed, ring_freed, len(payload) if length is None else length, reserved, 0,
                  sequence]
        fields[4] = crc32c(padded + TAIL.pack(*fields)) if crc is None else crc
        self.into_ring(padded + TAIL.pack(*fields),
                       (self.ring_sent % RING_SLOTS + 1) * RING_SLOT - RING_TAIL - len(padded))
        self.ring_sent += 1

    def completions(self, seconds):
        """What completes in this time: list of (opcode, status)."""
        found, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            count, done = self.cq.poll(16)
            found += [(one.opcode, one.status) for one in done[:count]]
            if not count:
                time.sleep(0.005)
        return found

    def earn_ring(self):
        """Send proper messages until the target lets its ring be written.

        It does so after 16 without a sleep, and forgets it when it sleeps before it has said so.
        """
        self.told, self.number = [], 0
        for _ in range(10):
            for _ in range(20):
                self.message(self.number)
                self.number += 1
            if self.comes(GRANT, 1):
                return
        raise AssertionError(f"the ring was never granted, but {self.told}")

    def comes(self, kind, seconds):
        """Whether a packet of this kind comes in this time, or has come."""
        end = time.monotonic() + seconds
        while kind not in self.told and time.monotonic() < end:
            self.told += self.received(0.05)
        return kind in self.told

    def received(self, seconds):
        """Kinds of the packets that come in this time."""
        arrived = sum(opcode == e.IBV_WC_RECV and status == e.IBV_WC_SUCCESS
                      for opcode, status in self.completions(seconds))
        first, self.taken = self.taken, self.taken + arrived
        return [HEAD.unpack(region.read(HEAD.size, 0))[3]
                for region in self.regions[first:self.taken]]

    def close(self):
        """Go away without a word to the program there."""
        self.id.close()
        self.cq.close()


# --- acts -------------------------------------------------------------------------------------

def refused(**wrong):
    """An act that ends with the answer to its request."""
    def act(link):
        link.connect(link.request(**wrong))

    return act


def only(private):
    """The same with private data of one's own."""
    def act(link):
        link.connect(private(link))

    return act


def hello(make):
    """An act that goes wrong in the first packet."""
    def act(link):
        assert link.connect(link.request()) == "ESTABLISHED"
        make(link)

    return act


def up(make):
    """An act that goes wrong on a connection that is up."""
    def act(link):
        link.open()
        make(link)

    return act


def ringing(make):
    """An act that goes wrong once the ring may be used."""
    def act(link):
        link.open()
        link.earn_ring()
        make(link)

    return act


def many(count, make):
    """The same packet again and again."""
    def act(link):
        for _ in range(count):
            make(link)

    return act


def transfer(key, length, die):
    """Announce data in this process's memory, with a key or length that may be wrong."""
    def act(link):
        link.open()
        region = link.memory(bytes(32 << 20), link.id.reg_read)
        address = region.buf if key is None else 4096
        link.packet(DATA, link.engine(RTS, 0, length, more=struct.pack(
            "<QQ", address, (region.rkey if key is None else key) << 32)))
        if die:
            time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)

    return act


BEFORE = {
    "wrong magic": refused(magic=0x12345678),
    "wrong version": refused(version=9),
    "wrong key": refused(key=bytes(16)),
    "wrong job": refused(job=bytes(8)),
    "rank beyond the job": refused(source=1_000_000),
    "the target's own rank": refused(source=0, target=0),
    "another target": refused(target=1),
    "nothing": only(lambda link: b""),
    "short": only(lambda link: link.request()[:20]),
    "noise": only(lambda link: os.urandom(56)),
    "altered": only(lambda link: link.request()[:-1] + b"\0"),
    "right": refused(),
}
FIRST = {
    "hello with a wrong key": hello(lambda link: link.hello(key=bytes(16))),
    "hello cut short": hello(lambda link: link.packet(KIND_HELLO, bytes(20))),
    "hello of noise": hello(lambda link: link.raw(os.urandom(72))),
    "hello with no receives": hello(lambda link: link.hello(link.own_offer(receives=0))),
    "hello with a million receives": hello(
        lambda link: link.hello(link.own_offer(receives=1_000_000))),
    "hello with another slot": hello(lambda link: link.hello(link.own_offer(slot=8))),
    "hello with a ring at the end of memory": hello(
        lambda link: link.hello(link.own_offer(ring=(1 << 64) - 64))),
    "data before hello": hello(lambda link: link.message(0)),
    "silence": hello(lambda link: None),
}
AFTER = {
    "noise": up(lambda link: link.raw(os.urandom(300))),
    "nothing": up(lambda link: link.raw(b"")),
    "cut short": up(lambda link: link.raw(b"123")),
    "longer than a slot": up(lambda link: link.raw(bytes(SLOT + 64))),
    "wrong version": up(lambda link: link.packet(DATA, version=9)),
    "reserved bits": up(lambda link: link.packet(DATA, reserved=1)),
    "unknown kind": up(lambda link: link.packet(99)),
    "kind 0": up(lambda link: link.packet(0)),
    "second hello": up(lambda link: link.hello()),
    "impossible credits": up(lambda link: link.packet(CREDIT, freed=1000)),
    "impossible ring credits": up(lambda link: link.packet(CREDIT, ring_freed=7)),
    "control packet with data": up(lambda link: link.packet(SLEEP, b"data")),
    "number repeated": up(lambda link: (link.message(0), link.packet(
        DATA, link.engine(EAGER, 1, 0), sequence=1))),
    "number from the past": up(lambda link: (link.message(0), link.packet(
        DATA, link.engine(EAGER, 1, 0), sequence=0))),
    "number from the future": up(lambda link: link.packet(DATA, b"x" * 40, sequence=500)),
    "data after goodbye": up(lambda link: (link.packet(BYE), link.message(0))),
    "engine packet cut short": up(lambda link: link.packet(DATA, b"123")),
    "engine packet of noise": up(lambda link: link.packet(DATA, b"\xff" * 200)),
    "engine packet of length 0": up(lambda link: link.packet(DATA)),
    "message longer than its packet": up(
        lambda link: link.packet(DATA, link.engine(EAGER, 0, 1 << 40))),
    "message out of order": up(lambda link: link.packet(DATA, link.engine(EAGER, 77, 0))),
    "negative tag": up(lambda link: link.packet(DATA, link.engine(EAGER, 0, 0, tag=-3))),
    "grant of nothing": up(lambda link: link.packet(DATA, link.engine(16, 0, 9, more=b"x" * 24))),
    "chunk of nothing": up(lambda link: link.packet(DATA, link.engine(17, 0, 9, cookie=1))),
    "write beyond the ring": up(lambda link: link.into_ring(bytes(4096), 1 << 20)),
    "leaves": up(lambda link: (link.message(0), time.sleep(0.05), link.close())),
    "transfer with a wrong key": transfer(0x1234, 1 << 20, False),
    "transfer longer than its memory": transfer(None, 48 << 20, False),
    # With a checksum a wrong length may be a slot that is not whole yet, until it is said that
    # nothing more will be written.
    "impossible length in the ring": ringing(
        lambda link: (link.ring_slot(b"x" * 40, length=5000), link.comes(SLEEP, 10),
                      link.packet(ASLEEP), link.message(link.number))),
    "impossible credits in the ring": ringing(
        lambda link: link.ring_slot(b"x" * 40, freed=5000)),
    "engine noise in the ring": ringing(lambda link: link.ring_slot(b"\xff" * 80)),
}
DEADLY = {
    "dies in mid transfer": transfer(None, 32 << 20, True),
    # Not before its HELLO has arrived: who never said it was never there.
    "dies without a word": up(lambda link: (link.completions(0.2),
                                            os.kill(os.getpid(), signal.SIGKILL))),
}
# Whether these are noticed is the device's business; they harm nobody else.
EITHER = {
    "more than its credits": up(many(120, lambda link: link.packet(GRANT))),
}
# Bad manners that harm nobody: the connection stays, and what is right still arrives.
HARMLESS = {
    "right": up(lambda link: None),
    "grant without a ring": up(lambda link: link.packet(GRANT)),
    "asleep without sleep": up(many(3, lambda link: link.packet(ASLEEP))),
    "sleep without grant": up(many(3, lambda link: link.packet(SLEEP))),
    "old credits": up(lambda link: link.packet(CREDIT, freed=0xFFFFFF00)),
    "noise in a closed ring": up(
        lambda link: link.into_ring(os.urandom(RING_SLOTS * RING_SLOT), 0)
        if link.offer["ring"] else None),
    "reads without end": up(many(150, lambda link: link.id.post_read(
        link.regions[0], 8, link.offer["control"], link.offer["control_key"],
        e.IBV_SEND_SIGNALED))),
    "noise in the open ring": ringing(
        lambda link: link.into_ring(os.urandom(RING_SLOTS * RING_SLOT), 0)),
    "wrong checksum in the ring": ringing(
        lambda link: link.ring_slot(b"x" * 40, crc=12345, sequence=link.sequence + 1)),
    "well-behaved ring": ringing(
        lambda link: link.ring_slot(link.engine(EAGER, link.number, 3, more=b"abc"))),
}
GROUPS = {"before": BEFORE, "first": FIRST, "after": AFTER, "deadly": DEADLY,
          "either": EITHER, "harmless": HARMLESS}


def strangers(order, count):
    """Connect and go away at once, again and again."""
    begin = time.monotonic()
    refusals = 0
    for number in range(count):
        link = Stranger(order)
        refusals += link.knock(os.urandom(number % 57))
    return {"refusals": refusals, "seconds": time.monotonic() - begin}


class Stranger(Link):
    """Somebody who is not of the job, with as little as it takes to send a request."""

    def __init__(self, order):
        self.find(order)
        self.id.create_qp(QPInitAttr(qp_type=e.IBV_QPT_RC, cap=QPCap(1, 1, 1, 1)))

    def knock(self, private):
        """Whether the request was refused."""
        name = self.connect(private)
        self.id.close()
        return name == "REJECTED" or name.startswith("failed")


def main():
    """Play the acts that are asked for."""
    order = json.loads(sys.argv[1])
    kept = []
    for line in sys.stdin:
        group, name, rank = json.loads(line)
        if group == "strangers":
            answer = strangers(order, rank)
        else:
            link = Link(order, rank)
            GROUPS[group][name](link)
            if group == "harmless" and name != "well-behaved ring":
                link.message(getattr(link, "number", 0), b"still here")
            answer = {"reject": link.reject, "open": link.offer is not None}
            kept.append(link)
        print(json.dumps(answer), flush=True)
    # The ends of what is kept need no ceremony.
    os._exit(0)


if __name__ == "__main__":
    main()
