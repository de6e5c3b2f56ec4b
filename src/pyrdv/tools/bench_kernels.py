"""The measured loops: latency, bandwidth and rate of two-sided messages.

Every function takes the ``MPI`` module it measures as an argument and uses only names that
mpi4py has too. The file therefore imports nothing of pyrdv: ``benchmarks/peers`` loads it by
path in environments where only mpi4py exists, so that one text measures every library.

What must hold, whoever calls:

1. All ranks call the same kernel with the same arguments; the number of ranks is even. Rank ``i``
   of the first half talks to rank ``i + size // 2``, all pairs at once.
2. How often a loop runs follows from one figure that rank 0 broadcasts (``Plan.counts``), so no two
   ranks can disagree about the number of messages.
3. The clock is read outside the innermost loop where a message is shorter than about 20 us; one
   sample is then the mean of a batch, and percentiles are percentiles of batch means.
"""

import mmap
import time

import numpy as np

DATA, ACK, READY, GO = 1, 2, 3, 4
#: The shortest batch that one pair of clock readings (~0.1 us) may enclose, seconds.
MIN_BATCH_S = 100e-6
#: Samples taken of one point at the least and at the most, whatever the time budget.
MIN_SAMPLES, MAX_SAMPLES = 5, 2000

#: How the buffers of `bandwidth` come about: name -> meaning.
BUFFERS = {
    "reused": "one buffer on each side for every message, as in the OSU micro-benchmarks; windows",
    "slots": "one buffer for each message of the window, used again by every window",
    "fresh": "np.empty for every message on both sides, one message at a time: what a loop of "
    "`buf = np.empty(n); comm.Recv(buf)` does; malloc may hand out memory used before",
    "fresh-window": "np.empty for every message, a whole window of them alive: beyond a few MiB "
    "these are pages that the kernel has just mapped",
    "mapped": "one anonymous private mapping per message, one message at a time: pages that the "
    "process has never touched",
}


class Plan:
    """How long to measure one point.

    Parameters
    ----------
    budget : float
        Seconds to spend on one point, warm-up not included.
    iterations : int or None
        Number of samples; None finds it from the budget.
    """

    def __init__(self, budget=0.3, iterations=None):
        self.budget = budget
        self.iterations = iterations

    def counts(self, seconds_per_turn):
        """Return (samples, turns per sample) for a turn that takes `seconds_per_turn` seconds."""
        turn = max(seconds_per_turn, 1e-7)
        batch = max(1, round(MIN_BATCH_S / turn))
        if self.iterations is not None:
            return self.iterations, batch
        samples = int(self.budget / (turn * batch))
        return min(max(samples, MIN_SAMPLES), MAX_SAMPLES), batch


def partner(comm):
    """Return (rank of the peer, whether this rank is the measuring side)."""
    rank, size = comm.Get_rank(), comm.Get_size()
    if size < 2 or size % 2:
        raise ValueError(f"the benchmarks run on an even number of ranks, not on {size}")
    half = size // 2
    return (rank + half, True) if rank < half else (rank - half, False)


def summary(samples):
    """Return count, min, p10, median, p90 of `samples` (any unit) as a dict of floats."""
    low, mid, high = np.percentile(samples, (10, 50, 90))
    return {
        "samples": len(samples),
        "min": float(np.min(samples)),
        "p10": float(low),
        "median": float(mid),
        "p90": float(high),
    }


def measure(comm, plan, turns):
    """Run `turns(n)`, which does n turns and returns seconds, as often as `plan` asks.

    Returns on rank 0 the list over pairs of arrays of seconds per turn, elsewhere None. `turns`
    returns the seconds on the side that holds the clock, None on the other side of the pair.
    """
    comm.Barrier()
    turns(2)
    count = 4
    for _ in range(2):  # the first figure of a cold process is far too long; the second is used
        pair = _clock_side(comm, turns(count))
        turn = comm.bcast(pair, root=0) / count
        count = max(4, min(2000, int(0.02 / max(turn, 1e-7))))
    samples, batch = plan.counts(turn)
    comm.Barrier()
    taken = [turns(batch) for _ in range(samples)]
    own = np.array([s / batch for s in taken]) if taken[0] is not None else None
    return _collect(comm, own)


def _clock_side(comm, seconds):
    """Return on rank 0 the seconds of its pair, whichever side of the pair measured them."""
    peer, first = partner(comm)
    mine = np.array([-1.0 if seconds is None else seconds])
    other = np.empty(1)
    comm.Sendrecv(mine, dest=peer, sendtag=ACK, recvbuf=other, source=peer, recvtag=ACK)
    return float(max(mine[0], other[0])) if first else None


def _collect(comm, own):
    """Return on rank 0 a list of the pairs' sample arrays, elsewhere None."""
    if comm.Get_rank() != 0:
        comm.send(own, 0, ACK)
        return None
    pairs = [] if own is None else [own]
    for rank in range(1, comm.Get_size()):
        got = comm.recv(source=rank, tag=ACK)
        if got is not None:
            pairs.append(got)
    return pairs


def latency(MPI, comm, size, plan):
    """Half round trips of blocking Send and Recv of `size` bytes.

    Returns
    -------
    dict or None
        On rank 0 the summary in microseconds over all pairs; None elsewhere.
    """
    peer, first = partner(comm)
    out, back = np.ones(size, np.uint8), np.zeros(size, np.uint8)

    def turns(n):
        send, recv = comm.Send, comm.Recv
        start = time.perf_counter()
        if first:
            for _ in range(n):
                send(out, peer, DATA)
                recv(back, peer, DATA)
        else:
            for _ in range(n):
                recv(back, peer, DATA)
                send(out, peer, DATA)
        return time.perf_counter() - start if first else None

    pairs = measure(comm, plan, turns)
    if pairs is None:
        return None
    return dict(summary(np.concatenate(pairs) * 0.5e6), size=size, unit="us", pairs=len(pairs))


def rate(MPI, comm, size, plan, window=64):
    """Messages per second: windows of `window` Isend and Irecv of `size` bytes and a short ack.

    Returns the summary on rank 0 in million messages per second, summed over the pairs.
    """
    peer, first = partner(comm)
    pairs = measure(comm, plan, _windows(MPI, comm, peer, first, size, window, "reused"))
    if pairs is None:
        return None
    return dict(_sum_of_rates(pairs, window / 1e6), size=size, unit="M/s", window=window)


def bandwidth(MPI, comm, size, plan, window=64, buffers="reused"):
    """Bytes per second of messages of `size` bytes; see `BUFFERS` for the kinds of buffers.

    With windows the sender's clock runs from the first Isend to the ack that the receiver sends
    after its Waitall. With one message at a time the receiver's clock runs from its request for the
    message over allocation, Recv and release. The sender fills a fresh buffer before it says that
    it is ready, so filling is outside of every clock; the receiver's page faults are inside.

    Returns the summary on rank 0 in GB/s (1e9 bytes), summed over the pairs.
    """
    peer, first = partner(comm)
    if buffers in ("fresh", "mapped"):
        window = 1
        turns = _singles(comm, peer, first, size, buffers)
    elif buffers == "fresh-window":
        turns = _fresh_windows(MPI, comm, peer, first, size, window)
    elif buffers in BUFFERS:
        turns = _windows(MPI, comm, peer, first, size, window, buffers)
    else:
        raise ValueError(f"buffers={buffers!r} is not one of {', '.join(BUFFERS)}")
    pairs = measure(comm, plan, turns)
    if pairs is None:
        return None
    row = _sum_of_rates(pairs, size * window / 1e9)
    return dict(row, size=size, unit="GB/s", window=window, buffers=buffers)


def _sum_of_rates(pairs, amount):
    """Return the summary of `amount` per turn over seconds per turn, added up over the pairs."""
    rows = [summary(amount / seconds) for seconds in pairs]
    total = {k: sum(row[k] for row in rows) for k in ("min", "p10", "median", "p90")}
    return dict(total, samples=min(row["samples"] for row in rows), pairs=len(rows))


def _windows(MPI, comm, peer, first, size, window, buffers):
    """Return turns(n) for windows over buffers that stay."""
    if buffers == "slots":
        slots = [np.ones(size, np.uint8) for _ in range(window)]
    else:
        slots = [np.ones(size, np.uint8)] * window
    ack = np.zeros(1, np.uint8)

    def turns(n):
        waitall = MPI.Request.Waitall
        isend, irecv = comm.Isend, comm.Irecv
        start = time.perf_counter()
        for _ in range(n):
            if first:
                waitall([isend(buf, peer, DATA) for buf in slots])
                comm.Recv(ack, peer, ACK)
            else:
                waitall([irecv(buf, peer, DATA) for buf in slots])
                comm.Send(ack, peer, ACK)
        return time.perf_counter() - start if first else None

    return turns


def _fresh_windows(MPI, comm, peer, first, size, window):
    """Return turns(n) for windows of buffers that live for one window only."""
    token = np.zeros(1, np.uint8)

    def send_window():
        slots = [np.empty(size, np.uint8) for _ in range(window)]
        for buf in slots:
            buf.fill(1)
        comm.Recv(token, peer, READY)
        start = time.perf_counter()
        comm.Send(token, peer, GO)
        MPI.Request.Waitall([comm.Isend(buf, peer, DATA) for buf in slots])
        comm.Recv(token, peer, ACK)
        return time.perf_counter() - start

    def receive_window():
        comm.Send(token, peer, READY)
        comm.Recv(token, peer, GO)
        slots, requests = [], []
        for _ in range(window):
            slots.append(np.empty(size, np.uint8))
            requests.append(comm.Irecv(slots[-1], peer, DATA))
        MPI.Request.Waitall(requests)
        del slots, requests
        comm.Send(token, peer, ACK)

    def turns(n):
        if first:
            return sum(send_window() for _ in range(n))
        for _ in range(n):
            receive_window()
        return None

    return turns


def _singles(comm, peer, first, size, buffers):
    """Return turns(n) for one fresh buffer at a time; the receiver holds the clock."""
    token = np.zeros(1, np.uint8)

    if buffers == "mapped":

        def new():
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)

    else:

        def new():
            return np.empty(size, np.uint8)

    def send_one():
        buf = new()
        buf.fill(1)
        comm.Send(token, peer, READY)
        comm.Recv(token, peer, GO)
        comm.Send(buf, peer, DATA)

    def receive_one():
        comm.Recv(token, peer, READY)
        start = time.perf_counter()
        comm.Send(token, peer, GO)
        buf = new()
        comm.Recv(buf, peer, DATA)
        del buf
        return time.perf_counter() - start

    def turns(n):
        if not first:
            return sum(receive_one() for _ in range(n))
        for _ in range(n):
            send_one()
        return None

    return turns


def pin(rank):
    """Bind this process to one of the CPUs it may use, ranks taken in turn; return its number."""
    import os

    allowed = sorted(os.sched_getaffinity(0))
    cpu = allowed[rank % len(allowed)]
    os.sched_setaffinity(0, {cpu})
    return cpu
