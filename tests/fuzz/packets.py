"""A broken peer: rank 1 of three is a raw fabric end that sends whatever a program says.

Rank 0 is the engine under test, rank 2 an honest engine whose traffic with
rank 0 must go on unharmed.  A program is a list of tuples of plain values (see
the ``do_*`` methods of `Rig`), so that ``repr`` is enough to run it again::

    Rig("sim").run([("packet", dict(kind=1, tag=-1)), ("honest", 5000)])

`Rig` knows docs/wire.md well enough to say of most packets whether they are
legal, and then checks that rank 0 agrees; what it cannot know (a guessed
cookie, a credit that is perhaps due) makes the rest of the program *vague*:
then only safety is checked.
"""

import contextlib
import os
import struct

import numpy as np

from pyrdv.api.communicator import Comm
from pyrdv.api.probe import take
from pyrdv.engine.engine import Engine
from pyrdv.errors import Error, PeerLostError
from pyrdv.instruments.fabric import AGAIN, BEHIND, FENCE, INVALID, LOST, OK, PACKET, Driver
from tests.conformance.worlds import KINDS, pattern
from tests.fuzz.pipes import CHECKED, CHUNK, GRANT, PIPED, TAKEN, Pipes
from tests.fuzz.receive import Receive
from tests.fuzz.standing import DEAR, PLACED, STAND, Standing

EAGER, RTS, DONE, CREDIT, FINISH, RTR, START, FIN, REVOKE, REVOKED, RTS_ACK = range(1, 12)
ANNOUNCEMENTS = (EAGER, RTS, START, PLACED)
SYNC, REFUSED, ADVICE, STOP_RTR, RESUME_RTR = 1, 2, 12, 16, 64
WAITING = SYNC              # of RTS and DONE
HEADER = struct.Struct("=BBHIiIQQII")
MEMORY = struct.Struct("=QQ")
OFFER = struct.Struct("=QQII")     # address, key, ahead, reserved
TAGS = (0, 1, 2)            # of receives that name rank 1; each is a FIFO of its own
WILD_TAG = 11               # of receives from anybody
HONEST_TAG = 9
FORGIVEN = ("read or wrote remote memory that is not registered for it",)
REACHABLE = (0, 1, 20, 2**32 - 4)   # contexts whose messages the rig takes in the end
HOLDING = 1 << 17           # unexpected_max: the least allowance, 64 KiB for each peer
UNITS = (HOLDING // 2) // 64


def header(kind, *, flags=0, content=0, context=0, tag=0, sequence=0, length=0, cookie=0,
           credit=0, freed=0):
    """The 40 bytes of section 3 of docs/wire.md."""
    return HEADER.pack(kind, flags, content, context, tag, sequence, length, cookie, credit,
                       freed)


def cost(length):
    """Credit units of an eager message (section 5)."""
    return 6 + -(-length // 64)


class Rig(Standing, Pipes):
    """Three ranks over the fabric `kind` (or ``KIND:classic``); rank 1 is a `Driver`."""

    lane_bytes = 16384

    def __init__(self, kind, seed=0):
        self.kind = kind
        kind, _, policy = kind.partition(":")
        self.policy = policy or "indexed"
        world = self.world = KINDS[kind].__new__(KINDS[kind])
        world.forgiven = FORGIVEN
        world.prepare(3, seed, None)
        world.dead.add(1)
        world.engines = [None if rank == 1 else
                         Engine(rank, 3, [world.fabrics[rank]], unexpected_max=HOLDING,
                                lane_bytes=self.lane_bytes, lanes=1, speculation=self.policy,
                                figures=[DEAR], standing_after=1)
                         for rank in range(3)]
        self.comms = [engine and Comm.of(engine) for engine in world.engines]
        self.engine = world.engines[0]
        self.driver = Driver(world.fabrics[1])
        self.own = np.frombuffer(bytearray(pattern(1 << 18, 77)), np.uint8)
        self.region = self.driver.register(self.own)
        self.sink_data = bytearray(1 << 18)
        self.sink = self.driver.register(self.sink_data)
        self.start_pipes()
        self.start_standing()
        self.sequence = self.taken = self.told = self.sent = 0
        self.finished = self.vague = self.broken = self.nowhere = False
        self.live, self.stale = [], [0]
        self.log = []           # (context, tag) of the announcements of rank 1
        self.heard = 0          # announcements of rank 0
        self.offers = []        # (header fields, place in the FIFO, address, key)
        self.landing = {}       # cookies of receives that were started: bytes
        self.owed = False       # a REVOKE that rank 0 has perhaps not answered
        self.fifo = {tag: [] for tag in TAGS}
        self.receives, self.sends, self.wild, self.honest = [], [], [], []
        self.posted = dict.fromkeys(TAGS, 0)
        for _ in range(1000):
            if self.driver.connect(0) == OK and self.world.engines[2].connect(0):
                break
            self.turn()
        else:
            raise AssertionError("rank 1 cannot connect")

    # ------------------------------------------------------------ turning

    def turn(self, count=1):
        """Let everybody move; returns how much happened."""
        moved = 0
        for _ in range(count):
            moved += self.world.step()
            self.driver.maintain()
            for event in self.driver.poll():
                moved += 1
                if event[0] == PACKET:
                    self.arrived(event[2])
            self.sends = [one for one in self.sends if not self.ended(one)]
        return moved

    def settle(self):
        idle = 0
        for _ in range(20_000):
            idle = 0 if self.turn() else idle + 1
            if idle > 20:
                return
        raise AssertionError("the ranks never come to rest")

    def arrived(self, packet):
        """Rank 0 keeps to the rules: note what it told."""
        kind, flags, _, context, tag, seen, length, cookie, credit, _ = HEADER.unpack(packet[:40])
        if kind in (GRANT, CHUNK, TAKEN):
            return self.pipe_arrived(packet, kind, context, tag, seen, length, cookie)
        self.standing_arrived(packet)
        self.told = credit if (credit - self.told) & 0xFFFFFFFF < 1 << 31 else self.told
        if kind == EAGER:
            self.taken += cost(length)
        self.heard += kind in ANNOUNCEMENTS
        self.owed &= kind != REVOKED
        if kind == RTR:
            address, key, ahead, _ = OFFER.unpack(packet[40:])
            place = self.log[:seen].count((context, tag))
            # The classic pairing does not say it, but all receives before have sent RTRs.
            place += ahead if self.policy == "indexed" else sum(
                offer[:2] == (context, tag) and offer[2] >= place for offer in self.offers)
            self.offers.append((context, tag, place, length, cookie, address, key))
        if self.finished:
            self.stale.append(cookie)
        elif kind == RTS:
            self.live.append((cookie, length, MEMORY.unpack(packet[40:])))
        elif kind in (EAGER, PLACED) and flags & SYNC:
            self.live.append((cookie, length, None))

    @staticmethod
    def ended(request):
        if isinstance(request, Receive):
            return request.ended()
        try:
            return request.Test()
        except Error:
            return True

    # -------------------------------------------------- what rank 1 sends

    def post(self, *chain):
        for _ in range(400):
            status = self.driver.post(0, *chain)
            if status != AGAIN:
                assert status in (OK, LOST, INVALID)
                return
            self.turn()

    def legal(self, packet):
        """Whether rank 0 must take `packet` (docs/wire.md, section 7); None: unknown."""
        if len(packet) < 40:
            return False
        (kind, flags, content, context, tag, sequence, length, cookie, credit,
         freed) = HEADER.unpack(packet[:40])
        tail = len(packet) - 40
        own = STOP_RTR | RESUME_RTR if self.policy == "classic" else 0
        wanted = {EAGER: (length, SYNC | ADVICE), RTS: (16, ADVICE | PIPED | WAITING | own),
                  DONE: (0, REFUSED | WAITING), CREDIT: (0, 0), FINISH: (0, 0), RTR: (24, 0),
                  START: (0, ADVICE), FIN: (0, REFUSED), REVOKE: (0, 0), REVOKED: (0, 0),
                  GRANT: (24, CHECKED), CHUNK: (0, REFUSED), TAKEN: (0, 0), STAND: (16, 0),
                  PLACED: (0, SYNC | ADVICE),
                  **({RTS_ACK: (0, 0)} if own else {})}.get(kind)
        if wanted is None or content > (kind in ANNOUNCEMENTS) or tail != wanted[0] \
                or flags & ~wanted[1]:
            return False
        if kind in ANNOUNCEMENTS:
            if tag < 0 or sequence != self.sequence & 0xFFFFFFFF or self.finished:
                return False
        if 0 < (credit - self.taken) & 0xFFFFFFFF < 1 << 31:
            return None     # more than rank 0 is known to have sent
        if (freed_legal := self.freed_legal(freed)) is not True:
            return freed_legal
        if kind == EAGER and self.sent + cost(length) - self.told > UNITS:
            return None     # unless credit is on its way
        if kind in (GRANT, CHUNK, TAKEN):
            return self.pipe_legal(kind, flags, context, tag, sequence, length, cookie)
        if kind in (PLACED, STAND):
            return self.standing_legal(kind, packet)
        if kind == START:
            return any(offer[4] == cookie for offer in self.next_offers(context, tag, length))
        if kind == FIN:
            return self.landing.get(cookie) == length if not flags else (
                cookie in self.landing and length == 0)
        if kind == RTR:
            if tag < 0 or OFFER.unpack(packet[40:])[3] or self.finished:
                return False
            # It may speak of announcements that are on their way here.
            return True if (self.heard - sequence) & 0xFFFFFFFF < 1 << 31 else None
        if kind == REVOKE:
            return None if self.owed else not self.finished
        if kind == REVOKED:
            return False        # rank 0 cancels nothing that it offered
        if kind in (DONE, RTS_ACK):
            known = [one for one in self.live if one[0] == cookie]
            return True if known and (kind == RTS_ACK or length <= known[0][1]) else None
        return True

    def send(self, packet, message=None, *before):
        """Post raw bytes, behind `before`.

        `message`: what a receive of it must get (None: nobody knows).
        """
        legal = self.legal(packet)
        if legal is None:
            self.vague = True
        elif not legal and not self.vague:
            self.broken = True
        if len(packet) >= 40:
            kind, _, _, context, tag, sequence, length, cookie, _, _ = HEADER.unpack(packet[:40])
            if kind in ANNOUNCEMENTS and sequence == self.sequence & 0xFFFFFFFF:
                self.sequence += 1
                self.log.append((context, tag))
                self.nowhere |= context not in REACHABLE
                self.sent += cost(length) if kind == EAGER else 0
                if not self.broken and context == 0 and tag in self.fifo:
                    self.fifo[tag].append(... if message is None or self.vague else message)
            if legal is not False:
                self.standing_sent(kind, packet)
            if kind == FINISH and legal:    # it ends the sends of rank 0
                self.finished = True
                self.stale += [one[0] for one in self.live]
                self.live = []
            self.owed |= kind == REVOKE
            if kind == START and legal:
                self.landing[cookie] = length
            if kind == FIN and legal:
                del self.landing[cookie]
            if kind == DONE and legal:
                self.live = [one for one in self.live if one[0] != cookie]
                self.stale.append(cookie)
        limit = min(40, len(packet))
        self.post(*before, self.driver.send_request(packet[:limit], packet[limit:],
                                                   BEHIND if before else 0))

    def do_raw(self, data):
        """Any bytes."""
        self.send(data[:self.driver.packet_max])

    def do_packet(self, fields, tail=b""):
        """A header with `fields` changed from what would be right, and bytes behind it.

        ``step`` is added to the right sequence number, ``more`` to the right credit;
        ``live``, ``stale``, ``offered``, ``granted`` choose a cookie among those that rank 0 told.
        """
        fields = dict(fields)
        fields["sequence"] = (self.sequence + fields.pop("step", 0)) & 0xFFFFFFFF
        fields["credit"] = (self.taken + fields.pop("more", 0)) & 0xFFFFFFFF
        for name, known in (("live", [one[0] for one in self.live]), ("stale", self.stale),
                            ("offered", [offer[4] for offer in self.offers])):
            if (index := fields.pop(name, None)) is not None and known:
                fields["cookie"] = known[index % len(known)]
        self.pipe_fields(fields)
        self.standing_fields(fields)
        if fields["kind"] == EAGER:
            fields.setdefault("length", len(tail))
        self.send(header(**fields) + tail, tail if fields["kind"] == EAGER else None)

    def do_eager(self, tag, size, sync=0):
        """A legal eager message, if there is credit for it."""
        size = min(size, self.driver.packet_max - 40)
        if self.sent + cost(size) - self.told <= UNITS:
            self.do_packet({"kind": EAGER, "tag": tag, "flags": sync, "cookie": 7},
                           pattern(size, self.sequence).tobytes())

    def do_rendezvous(self, tag, size):
        """A legal announcement of memory of rank 1."""
        self.send(header(RTS, tag=tag, sequence=self.sequence & 0xFFFFFFFF, length=size,
                         cookie=size, credit=self.taken & 0xFFFFFFFF)
                  + MEMORY.pack(self.region.address, self.region.key),
                  self.own[:size].tobytes())

    def next_offers(self, context, tag, length):
        """Offers that the next announcement of an envelope may take."""
        place = self.log.count((context, tag))
        return [offer for offer in self.offers
                if offer[:3] == (context, tag, place) and length <= offer[3]]

    def do_put(self, tag, size):
        """A message that is written into the buffer that a receive of rank 0 offers."""
        size = max(size, 1)
        offers = self.next_offers(0, tag, size)
        if not offers or self.finished:
            return self.do_rendezvous(tag, size)
        *_, cookie, address, key = offers[0]
        fields = {"tag": tag, "length": size, "cookie": cookie, "credit": self.taken & 0xFFFFFFFF}
        self.send(header(START, sequence=self.sequence & 0xFFFFFFFF, **fields),
                  self.own[:size].tobytes())
        self.landing.pop(cookie, None)
        return self.post(self.driver.write_request(self.region, 0, address, key, size),
                         self.driver.send_request(header(FIN, **fields), flags=FENCE))

    def do_offer(self, tag, size):
        """A receive of rank 1 offers its buffer."""
        if not self.finished:
            self.send(header(RTR, tag=tag, sequence=self.heard & 0xFFFFFFFF, length=size, cookie=9,
                             credit=self.taken & 0xFFFFFFFF)
                      + OFFER.pack(self.sink.address, self.sink.key, 0, 0))

    def do_answer(self, index, early=0):
        """Take the data of an announced send of rank 0; `early`: say so before it is read."""
        if not self.live:
            return
        cookie, length, memory = self.live[index % len(self.live)]
        done = header(DONE, length=length, cookie=cookie, credit=self.taken & 0xFFFFFFFF)
        if memory is None or not length:
            self.send(done)
            return
        read = self.driver.read_request(self.sink, 0, *memory, min(length, 1 << 18))
        if early:
            self.post(read)
            self.send(done)
        else:
            self.live.remove((cookie, length, memory))
            self.stale.append(cookie)
            self.post(read, self.driver.send_request(done, flags=FENCE))

    # ------------------------------------------- what the others do meanwhile

    def do_receive(self, tag, size):
        """Rank 0 posts a receive from rank 1."""
        self.receives.append(Receive(self.comms[0], tag, size, self.posted[tag]))
        self.posted[tag] += 1

    def do_wild(self, size):
        """Rank 0 posts a receive from anybody."""
        self.wild.append(self.comms[0].Irecv(np.zeros(size, np.uint8), tag=WILD_TAG))

    def do_object(self):
        """Rank 0 posts a receive that first looks at the message."""
        self.wild.append(self.comms[0].irecv(source=1, tag=WILD_TAG))

    def do_send(self, size, sync=0):
        """Rank 0 sends to rank 1."""
        post = self.comms[0].Issend if sync else self.comms[0].Isend
        try:
            self.sends.append(post(pattern(size), dest=1, tag=3))
        except PeerLostError:   # it broke the rules, or said FINISH
            assert self.finished or not self.fine()

    @staticmethod
    def sent_by_0(size):
        """The data of such a message."""
        return pattern(size).tobytes()

    def do_probe(self, tag):
        """Rank 0 looks whether something is there."""
        with contextlib.suppress(PeerLostError):
            self.comms[0].Iprobe(source=1, tag=tag)

    def do_cancel(self, index):
        """Rank 0 takes a receive from anybody back."""
        if self.wild:
            self.wild[index % len(self.wild)].Cancel()

    def do_honest(self, size):
        """Ranks 0 and 2 send each other a message."""
        for a, b in ((0, 2), (2, 0)):
            data = pattern(size, len(self.honest))
            room = np.zeros(size, np.uint8)
            self.honest.append((
                self.comms[b].Irecv(room, source=a, tag=HONEST_TAG),
                self.comms[a].Isend(data, dest=b, tag=HONEST_TAG), room, data))

    def do_turn(self, count):
        """Some turns of progress."""
        self.turn(count)

    # ------------------------------------------------------------- the end

    def fine(self):
        return self.engine.peer_states()[1] in ("new", "up")

    def run(self, program):
        """Do all steps, end rank 1, check everything."""
        trace = os.environ.get("FUZZ_TRACE")
        if trace:   # what to look at when the process dies
            with open(trace, "w") as file:
                file.write(f"Rig({self.kind!r}).run({program!r})\n")
        try:
            for name, *values in program:
                getattr(self, f"do_{name}")(*values)
                self.turn()
            self.settle()
            self.verdict()
            self.end()
        finally:
            for engine in self.world.engines:
                if engine is not None:
                    engine.close()
            self.world.fabrics[1].close()

    def verdict(self):
        """Rank 0 broke the connection if, and only if, it had to."""
        if self.broken:
            assert self.engine.peer_states()[1] == "lost"
            assert self.engine.counters()["protocol_errors"] == 1
        elif not self.vague:
            assert self.fine() and self.engine.counters()["protocol_errors"] == 0

    def end(self):
        self.world.kill(1)
        for _ in range(3000):
            if not self.fine():
                break
            self.turn_honest()
        assert not self.fine(), "the death of rank 1 goes unnoticed"
        self.do_honest(3000)
        self.do_honest(150_000)
        waiting = self.sends + self.receives + [one for pair in self.honest for one in pair[:2]]
        for _ in range(3000):
            waiting = [one for one in waiting if not self.ended(one)]
            if not waiting:
                break
            self.turn_honest()
        assert not waiting, f"{len(waiting)} operations with a broken peer never end"
        for _, _, room, data in self.honest:
            assert np.array_equal(room, data)
        self.check_receives()
        self.drain()
        leaks = self.world.leaks()
        if self.nowhere:    # messages that no communicator can receive stay in their queue
            leaks = [one for one in leaks if one[:2] != (0, "messages_in_use")]
        assert leaks == []
        self.world.shut()

    def turn_honest(self):
        self.world.step()

    def check_receives(self):
        for one in self.receives:
            came = self.fifo[one.tag]
            beyond = ... if self.vague else None
            one.check(came[one.place] if one.place < len(came) else beyond)
        for post in (lambda: self.comms[0].Isend(b"x", dest=1),
                     lambda: self.comms[0].Irecv(bytearray(1), source=1, tag=8).Wait()):
            try:
                post()
            except PeerLostError:
                continue
            raise AssertionError("an operation with a lost peer succeeded")

    def drain(self):
        """Take what nobody received; what has a context that does not exist stays."""
        for one in self.wild:
            one.Cancel()
            assert one.is_complete() or self.finish_wild(one)
            one.Free()
        while (message := take(self.comms[0], 1, -1)) is not None:
            request = message.Irecv(bytearray(10_000))
            assert self.ended(request) or self.finish_wild(request)
        counters = self.engine.counters()
        assert counters["messages_in_use"] == counters["unexpected_now"]
        assert counters["pool_bytes"] < 1 << 21
        self.strangers()

    def finish_wild(self, request):
        for _ in range(3000):
            if self.ended(request):
                return True
            self.turn_honest()
        return False

    def strangers(self):
        """Messages of contexts that a communicator could have."""
        for context in REACHABLE:
            comm = Comm.of(self.engine, number=context // 4)
            for view in (comm, comm.collective()):
                while (message := take(view, 1, -1)) is not None:
                    assert self.ended(message.Irecv(bytearray(10)))
