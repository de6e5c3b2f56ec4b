"""How much of the communication of a program is hidden: meters, and what they say together.

The same kernel runs twice, with non-blocking and with blocking calls, and each rank has a `Meter`
for each pass. `settle` then looks at the meters of all ranks of one pass together, since only a
partner knows whether a wait was a wait for its work.
"""

import socket
import time

import numpy as np

PING, BYTES = 3, 4  # tags
DEFINITION = (
    "hidden share = 1 - exposed(non-blocking) / exposed(blocking), of the same kernel\n"
    "  in calls:    time inside message calls, all ranks\n"
    "  late block:  of that, waiting for a block that its rank had not finished compressing\n"
    "  late rank 0: of that, senders waiting while rank 0 compressed, wrote or had a late block\n"
    "  exposed:     the rest; uneven work is no communication\n"
    "  bytes alone: the same blocks sent and received, nothing computed, the fastest of three"
)


class Meter:
    """Time of this rank in one pass: inside message calls, inside the compressor, and moments.

    Moments are on rank 0's clock (see `clock_offset`), so that ranks may compare theirs.

    Attributes
    ----------
    calls, compress, wall : float
        Seconds inside message calls, inside the compressor, and of the whole pass.
    sent : int
        Bytes sent.
    posted : dict of int to float
        Moment at which each own block was handed to the send call.
    spans : list of (float, float)
        Start and end of each piece of work that is no communication.
    waits : list of (int, float, float)
        Block, start and end of each call that may wait for the partner.
    late_block, late_root : float
        Filled by `settle`: seconds waited for a block still being compressed, and for
        rank 0 at work or kept by such a block.
    """

    def __init__(self, offset):
        self.offset = offset
        self.calls = self.compress = self.wall = 0.0
        self.sent = 0
        self.posted, self.spans, self.waits = {}, [], []
        self.late_block = self.late_root = 0.0

    def now(self):
        return time.monotonic() + self.offset

    def call(self, function, *args):
        """Run a message call that does not wait."""
        start = time.monotonic()
        value = function(*args)
        self.calls += time.monotonic() - start
        return value

    def wait(self, block, function, *args):
        """Run a message call that may wait for the partner, about `block`."""
        start = self.now()
        value = function(*args)
        end = self.now()
        self.calls += end - start
        self.waits.append((block, start, end))
        return value

    def work(self, function, *args):
        """Run what is no communication and may make a partner wait."""
        start = self.now()
        value = function(*args)
        self.spans.append((start, self.now()))
        return value


def clock_offset(comm):
    """Return what to add to time.monotonic() to get rank 0's; 0 where ranks share a host.

    Elsewhere the best of 16 exchanges with rank 0 counts (Cristian's method).
    """
    rank, offset = comm.Get_rank(), 0.0
    host = comm.bcast(socket.gethostname(), root=0)
    answer = np.zeros(1)
    for source in range(1, comm.Get_size()):
        best = float("inf")
        for _ in range(16):
            if rank == 0:
                comm.Recv(answer, source, PING)
                answer[0] = time.monotonic()
                comm.Send(answer, source, PING)
            elif rank == source:
                start = time.monotonic()
                comm.Send(answer, 0, PING)
                comm.Recv(answer, 0, PING)
                end = time.monotonic()
                if end - start < best:
                    best, offset = end - start, answer[0] - (start + end) / 2
    return 0.0 if host == socket.gethostname() else offset


def common(first, second):
    """Return the seconds that two lists of (start, end), each in order, have in common."""
    total, at = 0.0, 0
    for start, end in first:
        while at < len(second) and second[at][1] <= start:
            at += 1
        ahead = at
        while ahead < len(second) and second[ahead][0] < end:
            total += min(end, second[ahead][1]) - max(start, second[ahead][0])
            ahead += 1
    return total


def settle(meters):
    """Find in the meters of all ranks of one pass, rank 0 first, what was waiting for work."""
    ranks, root = len(meters), meters[0]
    late = []
    for block, start, end in root.waits:
        posted = meters[block % ranks].posted[block]
        late.append((start, min(max(posted, start), end)))
    root.late_block = sum(end - start for start, end in late)
    # While rank 0 waits for work of one rank, the others that wait for rank 0 do so, too.
    away = sorted(root.spans + late)
    for meter in meters[1:]:
        meter.late_root = common([wait[1:] for wait in meter.waits], away)


class Pass:
    """The sums over all ranks of one pass, scaled to `sent` bytes."""

    def __init__(self, meters, sent):
        scale = sent / sum(meter.sent for meter in meters)
        self.calls, self.late_block, self.late_root = (
            scale * sum(getattr(meter, name) for meter in meters)
            for name in ("calls", "late_block", "late_root"))
        self.exposed = self.calls - self.late_block - self.late_root


def transfer(comm, kept, buffers):
    """Send the blocks of each rank to rank 0 again, nothing computed; return seconds in calls.

    The fastest of three passes counts for the sum over all ranks, which rank 0 returns.
    """
    rank, best = comm.Get_rank(), float("inf")
    for _ in range(3):
        seconds = 0.0
        for source in range(1, comm.Get_size()):
            count = comm.bcast(len(kept) if rank == source else None, root=source)
            comm.Barrier()
            for index in range(count if rank in (0, source) else 0):
                start = time.monotonic()
                if rank == 0:
                    comm.Recv(buffers[index % len(buffers)], source, BYTES)
                else:
                    comm.Send(kept[index], 0, BYTES)
                seconds += time.monotonic() - start
        best = min(best, comm.allreduce(seconds))
    return best
