"""The measured loops of overlap, progress and exchange, between two ranks: 0 sends, 1 receives.

After the micro-benchmarks of Rashti and Afsahi, "A Speculative and Adaptive MPI Rendezvous Protocol
Over RDMA-enabled Interconnects" (2009), sections 4.2 and 4.4.  As in `bench_kernels` everything
takes a communicator and uses only names that mpi4py has too, and nothing of pyrdv is imported.

What must hold:

1. Both ranks call the same function with the same arguments.
2. Computation is a number of units of `Work`: it takes the processor for as long as it needs and
   never looks at a clock, so a transfer that takes the processor away from it makes it longer.
3. Who comes first is forced by work as well: the late side lets the early one go (`let_go`) and
   works for `lead`, in which the early side's packet arrives.  So no call of the library sees that
   packet before the late side's own call does.
4. If the early side is the one that computes, it works for `lead` too, between its call and the
   begin of what is measured.  So on both sides the measured time has the same beginning, the moment
   in which the late side calls, and the time of the early call is added to it.
"""

import os
import statistics
import time
from typing import NamedTuple

import numpy as np

READY = 1
# Each pattern has tags of its own: a library may learn how the messages of an envelope come.
PLAIN, CROSSING, HALO, PREDICTED, MODELS, SCENES = 2, 3, 4, 5, 10, 20
SENDER, RECEIVER = "sender", "receiver"
SIDES = (RECEIVER, SENDER)
#: Doubles of one unit of work: they fit into the first cache, and NumPy lets go of the GIL.
UNIT = 2048
#: The least work in which an early packet arrives, seconds, and how many small messages it lasts.
LEAD_LEAST, LEAD_MESSAGES = 400e-6, 64


class Work:
    """A fixed amount of computation, counted in units.

    Attributes
    ----------
    seconds : float
        Length of one unit as `calibrate` found it.
    """

    def __init__(self):
        self.values = np.full(UNIT, 1.5)
        self.seconds = 0.0

    def run(self, units):
        """Compute; the time it takes depends on `units` only."""
        values, root = self.values, np.sqrt
        for _ in range(units):
            root(values, values)

    def calibrate(self, comm, least=0.02):
        """Find the length of a unit, on both ranks at once; that of rank 0 counts."""
        units, taken = 64, 0.0
        while taken < least:
            units *= 2
            taken = self.time(units)
        # The shortest: other work on the machine only makes it longer.
        found = min(self.time(units // 8) for _ in range(24)) / (units // 8)
        self.seconds = comm.bcast(found, root=0)
        return self

    def time(self, units):
        """Return the seconds that `units` take now."""
        start = time.perf_counter()
        self.run(units)
        return time.perf_counter() - start

    def units(self, seconds):
        """Return the number of units that take about `seconds`."""
        return max(round(seconds / self.seconds), 1) if seconds > 0 else 0


class Scene(NamedTuple):
    """Who comes first, who computes.

    Attributes
    ----------
    first, side : {"sender", "receiver"}
        Who makes its call first; who works between its call and its Wait.
    lead : int
        Units of work by which the other one comes later.
    source : int, optional
        The constant by which the receiver takes a message from anybody; None: it names the sender.
    """

    first: str
    side: str
    lead: int
    source: int | None = None

    @property
    def tag(self):
        """The tag of its messages."""
        return (SCENES + 2 * SIDES.index(self.first) + SIDES.index(self.side)
                + 4 * (self.source is not None))


class Turn(NamedTuple):
    """One message as one rank saw it, in seconds.

    Attributes
    ----------
    call, wait : float
        In Isend or Irecv; in Wait.
    elapsed : float
        From the late side's call (see 4 above) to the end of Wait, and the early call.
    total : float
        From the own call to the end of Wait.
    work : float
        Between call and Wait, without the lead.
    lead : float
        By which it came later; 0 on the early side.
    moved : float or None
        On the side that computes, share of the message that moved while it did.  The receiver looks
        at its buffer; the sender's is 1 if the first look of its Wait finds the send complete.
    """

    call: float
    wait: float
    elapsed: float
    total: float
    work: float
    lead: float
    moved: float | None


def stage(scene, me, work, units, begin, finish, look=lambda: None):
    """Play one side of a message.

    Parameters
    ----------
    scene : Scene
    me : {"sender", "receiver"}
    work : Work
    units : int
        Of work between call and Wait, on the side that computes.
    begin, finish : callable
        Start the message, and end it; `finish` says whether it was complete at once, or None.
    look : callable
        Says how much of the message is there when the work is over, without a call of the library;
        the clock stands still meanwhile.

    Returns
    -------
    Turn
    """
    now = time.perf_counter
    early, computes = me == scene.first, me == scene.side
    begun = now()
    if not early:
        work.run(scene.lead)
    start = now()
    begin()
    called = ready = now()
    if early and computes:
        work.run(scene.lead)
        ready = now()
    if computes:
        work.run(units)
    worked = now()
    moved = look() if computes else None
    waiting = now()
    ended = finish()
    end = now()
    if computes and moved is None and ended is not None:
        moved = float(ended)
    looked = waiting - worked
    return Turn(called - start, end - waiting, called - start + end - ready - looked,
                end - start - looked, worked - ready, 0.0 if early else start - begun, moved)


def messages(comm, scene, work, units, size, count, told=None):
    """Send `count` messages of `size` bytes, one after the other, each by `stage`.

    What was found goes by the communicator `told`, if it is not to be counted among the messages.

    Returns
    -------
    dict of str to list of Turn, or None
        By side, on rank 0; None on rank 1.
    """
    rank = comm.Get_rank()
    me = (SENDER, RECEIVER)[rank]
    buffer = np.zeros(size, np.uint8)
    requests = []

    def begin():
        call = comm.Isend if me == SENDER else comm.Irecv
        peer = 1 - rank if me == SENDER or scene.source is None else scene.source
        requests.append(call(buffer, peer, scene.tag))

    def finish():
        request = requests.pop()
        ended = request.Test() if me == SENDER else None
        request.Wait()
        return ended

    def look():
        pages = buffer[::4096]
        return np.count_nonzero(pages == mark) / pages.size if me == RECEIVER else None

    own = []
    for number in range(count):
        mark = number % 250 + 1
        if me == SENDER:
            buffer.fill(mark)
        gone = let_go(comm, me == scene.first)
        own.append(stage(scene, me, work, units, begin, finish, look))
        gone.Wait()
        check(buffer, mark)
    found = (told or comm).gather([tuple(turn) for turn in own], root=0)
    if rank:
        return None
    return {side: [Turn(*turn) for turn in turns]
            for side, turns in zip((SENDER, RECEIVER), found, strict=True)}


def spans(scene, found):
    """Return for each message the seconds from the late side's call to the end of all.

    That is when the computing side is through its Wait and the receiver has the data: a send may
    be complete for its sender, and on iWARP a write is, while the data is still on its way.
    """
    other = SIDES[SIDES[0] == scene.side]
    ends = []
    for own, peer in zip(found[scene.side], found[other], strict=True):
        arrived = peer.total - own.lead
        ends.append(own.elapsed if scene.side == RECEIVER else max(own.elapsed, arrived))
    return ends


def end_to_end(communication, work, both):
    """Return the share of the shorter one of communication and work that does not show in both."""
    return (communication + work - both) / min(communication, work)


def together(comm):
    """Meet the other ranks; all leave at about the same time."""
    if comm.Get_size() != 2:
        comm.Barrier()
        comm.Barrier()
        return
    # Who came early may be asleep and takes long to wake: then they meet once more, wide awake.
    comm.Barrier()
    peer = 1 - comm.Get_rank()
    received = comm.Irecv(np.zeros(1, np.uint8), peer, READY)
    sent = comm.Isend(np.zeros(1, np.uint8), peer, READY)
    while not (received.Test() and sent.Test()):
        os.sched_yield()


def let_go(comm, early):
    """Meet the other one of two ranks; who is not `early` leaves half a trip before the other.

    The early side waits for a message that is the late side's last call.  If both left one meeting,
    the scheduler could keep the late side in it until the early side's next packet is there.

    Returns
    -------
    Request
        Of that message, for a Wait when all is over.
    """
    together(comm)
    peer, byte = 1 - comm.Get_rank(), np.zeros(1, np.uint8)
    if not early:
        return comm.Isend(byte, peer, READY)
    received = comm.Irecv(byte, peer, READY)
    while not received.Test():
        os.sched_yield()
    return received


def check(buffer, mark):
    """End the job if a buffer is not full of `mark`: one byte of each page is looked at."""
    if not (buffer[::4096] == mark).all() or buffer[-1] != mark:
        raise RuntimeError(f"a message of {buffer.nbytes} bytes arrived with other bytes than "
                           "were sent: a fault of the library, its figures count nothing")


def pingpong(comm, size, count, tag=PLAIN, room=None):
    """Return `count` round trips of blocking Send and Recv of `size` bytes, in seconds.

    `room` is the size of the buffer they are received into, if it is another one.
    """
    rank = comm.Get_rank()
    peer, now = 1 - rank, time.perf_counter
    out, back = np.ones(size, np.uint8), np.zeros(room or size, np.uint8)
    stamps = [0.0] * (count + 1)
    comm.Barrier()
    stamps[0] = now()
    for turn in range(1, count + 1):
        if rank == 0:
            comm.Send(out, peer, tag)
            comm.Recv(back, peer, tag)
        else:
            comm.Recv(back, peer, tag)
            comm.Send(out, peer, tag)
        stamps[turn] = now()
    check(back[:size], 1)
    return [after - before for before, after in zip(stamps, stamps[1:], strict=False)]


def crossing(comm, size, count, receive_first=False):
    """Return the seconds of `count` turns in which both ranks send at once and then receive.

    Each announcement is on its way before the peer's receive is posted: what that may offer in
    advance comes too late.  With `receive_first`, as programs mostly do it, it may come in time.
    """
    tag = HALO if receive_first else CROSSING
    peer, now = 1 - comm.Get_rank(), time.perf_counter
    out, back = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    stamps = [0.0] * (count + 1)
    comm.Barrier()
    stamps[0] = now()
    for turn in range(1, count + 1):
        if receive_first:
            received = comm.Irecv(back, peer, tag)
        sent = comm.Isend(out, peer, tag)
        if not receive_first:
            received = comm.Irecv(back, peer, tag)
        sent.Wait()
        received.Wait()
        stamps[turn] = now()
    check(back, 1)
    return [after - before for before, after in zip(stamps, stamps[1:], strict=False)]


def lead(comm, work):
    """Return the units of work in which a small message surely arrives; the same on both ranks."""
    pingpong(comm, 8, 20)
    half = statistics.median(pingpong(comm, 8, 50)) / 2
    return comm.bcast(work.units(max(LEAD_LEAST, LEAD_MESSAGES * half)), root=0)


def transfer(comm, size, count):
    """Return the blocking transfer time, half a round trip, in seconds; the same on both ranks."""
    pingpong(comm, size, 1)
    return comm.bcast(statistics.median(pingpong(comm, size, count)) / 2, root=0)


class Exchange:
    """The data exchange of figure 15: all ranks produce, exchange with neighbours and consume.

    With one neighbour the ranks are in pairs, each of one rank of either half; with two they form a
    ring, and of two ranks each is both neighbours of the other.

    Parameters
    ----------
    comm, work
    size : int
        Bytes of a message, rounded to whole doubles.
    neighbours : {1, 2}
    """

    def __init__(self, comm, work, size, neighbours=1):
        count = max(size // 8, 1)
        ranks, rank = comm.Get_size(), comm.Get_rank()
        self.comm, self.work = comm, work
        pair, left, right = ((rank + step) % ranks for step in (ranks // 2, -1, 1))
        #: By direction: to whom, and from whom.
        self.ways = [(pair, pair)] if neighbours == 1 else [(right, left), (left, right)]
        # Columns of a matrix, as at the edges of a field: they must be packed to be sent.
        self.field = np.ones((count, 16))
        self.out = np.zeros((neighbours, count))
        self.packing = 0
        self.rooms = np.zeros((2, neighbours, count))

    def pack(self):
        """Copy what is to be sent side by side, with the work that belongs to it."""
        for way, out in enumerate(self.out):
            np.copyto(out, self.field[:, -way])
        self.work.run(self.packing)

    def send(self, model):
        """Begin the sends of an iteration."""
        return [self.comm.Isend(out, peer, MODELS + model + 2 * way)
                for way, (out, (peer, _)) in enumerate(zip(self.out, self.ways, strict=True))]

    def receive(self, model, turn):
        """Begin the receives of an iteration."""
        rooms = self.rooms[turn % 2]
        return [self.comm.Irecv(room, peer, MODELS + model + 2 * way)
                for way, (room, (_, peer)) in enumerate(zip(rooms, self.ways, strict=True))]

    def run(self, model, units, iterations, packing=0):
        """Return the seconds of one iteration.

        `units` are produced, and as many consumed; `packing` are added to each Pack.
        """
        loop = (self._receive_first, self._send_first)[model - 1]
        self.packing = packing
        self.rooms.fill(0)
        self.comm.Barrier()
        start = time.perf_counter()
        self.work.run(units)
        loop(units, iterations)
        taken = time.perf_counter() - start
        if not (self.rooms[(iterations - 1) % 2] == 1).all():
            raise RuntimeError("the exchange brought other data than was sent: a fault of the "
                               "library, its figures count nothing")
        return taken / iterations

    def _receive_first(self, units, iterations):
        work = self.work
        for turn in range(iterations):
            received = self.receive(0, turn)
            self.pack()
            sent = self.send(0)
            work.run(units)
            for request in (*sent, *received):
                request.Wait()
            work.run(units)

    def _send_first(self, units, iterations):
        work = self.work
        for turn in range(iterations):
            self.pack()
            sent = self.send(1)
            if turn:
                work.run(units)
            received = self.receive(1, turn)
            work.run(units)
            for request in (*sent, *received):
                request.Wait()
        work.run(units)


def sender_done(comm, size, seconds, count):
    """Return the seconds after which a send is done whose receiver works for `seconds`, on rank 0.

    The receive is posted first; see `messages`.
    """
    work = Work().calibrate(comm)
    scene = Scene(RECEIVER, RECEIVER, lead(comm, work))
    messages(comm, scene, work, 1, size, 2)
    found = messages(comm, scene, work, work.units(seconds), size, count)
    return None if found is None else [turn.total for turn in found[SENDER]]
