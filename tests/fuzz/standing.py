"""Standing buffers of the broken peer: rank 1 places messages, and takes what is placed.

Mixed into `Rig`.  It keeps to docs/wire.md (4.4, 7) where a program says ``place``, ``stand`` and
``free``; ``scribble`` writes where it may, but when it should not.  What is odd comes as ordinary
``packet`` steps.
"""

import struct

PLACED, STAND, CREDIT, FINISH, SYNC = 12, 13, 4, 5, 1
HEADER = struct.Struct("=BBHIiIQQII")
MEMORY = struct.Struct("=QQ")
BUFFERS = 3
STRIDE = 12_000                     # of one of rank 1's three buffers
MASK = 0xFFFFFFFF
#: What messages cost is known, and registering is dear: whatever fits a buffer is placed.
DEAR = {"latency": 2e-6, "gap": 1e-7,
        "net": [[size, 2e-6 + size / 1e9] for size in (4096, 1 << 20)],
        "read": [[size, 4e-6 + size / 1e9] for size in (4096, 1 << 20)],
        "copy": [[size, size / 4e9] for size in (4096, 1 << 20)],
        "registration": [[size, 1.0] for size in (4096, 1 << 20)]}


def ahead(count, before):
    """How much a count modulo 2**32 is ahead of an earlier one; 0: it is not."""
    step = (count - before) & MASK
    return step if step < 1 << 31 else 0


class Standing:
    """What `Rig` knows of standing buffers."""

    def start_standing(self):
        self.able = self.driver.able_behind and self.policy != "classic"
        # Of rank 0, for what rank 1 places.
        self.room = None        # (address, key, bytes)
        self.places = 0         # messages placed
        self.places_freed = 0   # buffers that came back
        # buffer: (tag, place in its FIFO) of its last message, or of those that may be it
        self.held = {}
        self.due = False        # rank 0 may have posted STAND
        # Of rank 1, for what rank 0 places.
        self.yard = bytearray(BUFFERS * STRIDE)
        self.yard_region = self.driver.register(self.yard)
        self.stood = False      # rank 0 knows of them
        self.heard_placed = self.freed_told = 0

    def standing_arrived(self, packet):
        """Any packet from rank 0, which keeps to the rules."""
        kind, _, _, context, _, _, length, _, _, freed = HEADER.unpack(packet[:40])
        if not self.vague:
            assert freed <= self.places
        self.places_freed = max(self.places_freed, freed)
        if kind == STAND:
            assert self.able and self.room is None and context == self.lane_bytes
            self.room = (*MEMORY.unpack(packet[40:]), context)
        elif kind == PLACED:
            at = self.heard_placed % BUFFERS * STRIDE
            self.heard_placed += 1
            if not self.vague:
                assert 0 < length <= STRIDE and self.stood
                assert self.heard_placed - self.freed_told <= BUFFERS
                assert self.yard[at:at + length] == self.sent_by_0(length)

    def freed_legal(self, freed):
        """Whether rank 0 must take that count of buffers given back; None: unknown."""
        step = ahead(freed, self.freed_told)
        if not step:
            return True         # nothing new, or from a packet that others have passed
        if not self.stood or step > BUFFERS:
            return False
        return True if step <= self.heard_placed - self.freed_told else None

    def standing_legal(self, kind, packet):
        """Whether rank 0 must take this PLACED or STAND; None: unknown."""
        _, _, _, context, _, _, length, *_ = HEADER.unpack(packet[:40])
        if kind == STAND:
            if not self.able or self.stood or self.finished or not context:
                return False
            address, key = MEMORY.unpack(packet[40:])
            mine = (address, key) == (self.yard_region.address, self.yard_region.key)
            return True if mine and context <= STRIDE else None
        if not self.able or not length or length > self.lane_bytes:
            return False
        if self.room is None:
            return None if self.due else False
        # Rank 0 may know of more that it gave back.
        return True if self.places - self.places_freed < BUFFERS else None

    def standing_sent(self, kind, packet):
        """Note what a packet that rank 0 takes, or may take, does."""
        _, _, _, context, tag, _, length, _, _, freed = HEADER.unpack(packet[:40])
        self.freed_told += ahead(freed, self.freed_told)
        if kind == PLACED:
            if context == 0 and tag in self.fifo and not self.broken:
                buffer = self.places % BUFFERS
                others = self.held.get(buffer, ()) if self.vague else ()
                self.held[buffer] = (*others, (tag, len(self.fifo[tag]) - 1))
            self.places += 1
        self.stood |= kind == STAND
        self.due |= self.able and kind == 2 and 0 < length <= self.lane_bytes

    def standing_fields(self, fields):
        """``given`` is added to the right count of buffers given back."""
        given = fields.pop("given", 0)
        fields.setdefault("freed", (self.freed_told + given) & MASK)

    def do_place(self, tag, size, sync=0, cookie=7):
        """A message written into a buffer of rank 0; by rendezvous if there is none."""
        if self.room is None or self.places - self.places_freed >= BUFFERS or self.finished:
            return self.do_rendezvous(tag, size)
        address, key, room = self.room
        size = min(max(size, 1), room)
        at = address + self.places % BUFFERS * room
        packet = HEADER.pack(PLACED, sync, 0, 0, tag, self.sequence & MASK, size, cookie,
                             self.taken & MASK, self.freed_told)
        # Other bytes than those of the message before in this buffer.
        begin = 64 * self.places % 4096
        return self.send(packet, self.own[begin:begin + size].tobytes(),
                         self.driver.write_request(self.region, begin, at, key, size))

    def do_scribble(self, buffer, size):
        """Write over a buffer of rank 0, whatever is in it: only that message is harmed."""
        if self.room is None:
            return
        address, key, room = self.room
        for tag, place in self.held.get(buffer, ()):
            self.fifo[tag][place] = ...
        self.post(self.driver.write_request(self.region, 8192, address + buffer * room, key,
                                           min(max(size, 1), room)))

    def do_stand(self):
        """Give rank 0 buffers."""
        if self.stood or self.finished or not self.able:
            return
        self.send(HEADER.pack(STAND, 0, 0, STRIDE, 0, 0, 0, 0, self.taken & MASK, 0)
                  + MEMORY.pack(self.yard_region.address, self.yard_region.key))

    def do_free(self, count):
        """Give up to `count` buffers back, late or at once."""
        freed = min(self.freed_told + count, self.heard_placed)
        self.send(HEADER.pack(CREDIT, 0, 0, 0, 0, 0, 0, 0, self.taken & MASK, freed))

    def do_finish(self, kind):
        """FINISH and, in the same chain, a PLACED or STAND that would be legal before it."""
        context, length, tail = 0, 100, b""
        if kind == STAND:
            context, length = STRIDE, 0
            tail = MEMORY.pack(self.yard_region.address, self.yard_region.key)
        self.finished = self.broken = True
        packet = HEADER.pack(kind, 0, 0, context, 0, self.sequence & MASK, length, 0,
                             self.taken & MASK, 0)
        self.post(self.driver.send_request(HEADER.pack(FINISH, *[0] * 9)),
                  self.driver.send_request(packet, tail))
