"""Kernels that wait for their messages as applications do: CG, BT, SP, LU, MG and RADIX.

After figure 18 of Rashti and Afsahi, "A Speculative and Adaptive MPI Rendezvous Protocol Over
RDMA-enabled Interconnects" (2009): the non-blocking calls of four NAS Parallel Benchmarks and of
the radix sort of SPLASH-2, and of SP and MG beside them.  What is computed is small and real: each
kernel can tell whether its result is right.  What must hold:

1. All ranks make a kernel with the same arguments and call the same methods in the same order.
2. Only `Waits.wait` waits for a request, so the time in waits is whole.
3. On a grid in strips each rank computes what one rank would compute of the whole grid, in the same
   order, so the check is to compute that (over `Alone`) and to compare.
"""

import time

import numpy as np

from pyrdv.tools.application_kernels import Gradients, Wrong

DOWN, UP, FORWARD, BACKWARD, KEYS = 12, 13, 14, 15, 16


class Alone:
    """A communicator of one rank, which has nobody to send to."""

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 1


class Waits:
    """What kernels share: they count their waits and what they send.

    Attributes
    ----------
    waited : float
        Seconds in waits of the last run.
    sent : int
        Bytes of its messages, without sums over all ranks.
    """

    waited, sent = 0.0, 0

    def begin(self):
        """Count from 0."""
        self.waited, self.sent = 0.0, 0

    def wait(self, *requests):
        """Wait for all of `requests`; None among them are nothing."""
        start = time.perf_counter()
        for request in requests:
            if request is not None:
                request.Wait()
        self.waited += time.perf_counter() - start

    def send(self, comm, data, peer, tag):
        """A blocking send."""
        self.sent += data.nbytes
        comm.Send(data, peer, tag)

    def isend(self, comm, data, peer, tag):
        """A send that does not wait."""
        self.sent += data.nbytes
        return comm.Isend(data, peer, tag)


class Cg(Waits, Gradients):
    """Irecv, Send and Wait for each neighbour, with no computation between."""

    ABOUT = "CG: conjugate gradients; irecv, send, wait for each neighbour, no work between"
    ITERATIONS = 10

    def run(self, comm, iterations):
        """Do so many iterations with messages of `comm`; returns the seconds in waits."""
        self.begin()
        super().run(comm, iterations)
        return self.waited

    def edges(self, comm):
        """Give the neighbours the first and the last row, and get theirs."""
        for peer, mine, theirs, out, back in ((self.rank - 1, self.p[1], self.p[0], UP, DOWN),
                                              (self.rank + 1, self.p[-2], self.p[-1], DOWN, UP)):
            if 0 <= peer < self.size:
                request = comm.Irecv(theirs, peer, back)
                self.send(comm, mine, peer, out)
                self.wait(request)


class Strip(Waits):
    """A grid in strips of whole rows, each row as long as a message.

    Parameters
    ----------
    comm : Intracomm
    nbytes : int
        Bytes of a message: an edge of a strip.
    whole : int
        Ranks whose strips this one has; 1 but for a check.
    """

    ROWS, SEED = 8, 5

    def __init__(self, comm, nbytes, whole=1):
        self.rank, self.size, self.nbytes = comm.Get_rank(), comm.Get_size(), nbytes
        self.width = max(nbytes // 8, 2)
        strips = [np.random.default_rng((self.SEED, self.rank * whole + number)).standard_normal(
            (self.ROWS, self.width)) for number in range(whole)]
        self.start = np.concatenate(strips)
        self.found, self.iterations = None, 0
        self.wanted = {}                # by the number of iterations

    def run(self, comm, iterations):
        """Do so many iterations with messages of `comm`; returns the seconds in waits."""
        self.begin()
        self.iterations = iterations
        self.found = self.solve(comm, iterations)
        return self.waited

    def check(self, comm):
        """Raise `Wrong` unless the strip is that of the whole grid."""
        rows = self.found.shape[0]
        if self.iterations not in self.wanted:
            one = type(self)(Alone(), self.nbytes, self.size)
            one.run(Alone(), self.iterations)
            self.wanted[self.iterations] = one.found[self.rank * rows:(self.rank + 1) * rows].copy()
        if not np.array_equal(self.found, self.wanted[self.iterations]):
            raise Wrong(f"{self.ABOUT.split(':')[0]}: the strip of rank {self.rank} is not that of "
                        "the whole grid")

    def neighbours(self, p):
        """(peer, row to send, row to receive into, tags of both) of each neighbour."""
        every = ((self.rank - 1, p[1], p[0], UP, DOWN), (self.rank + 1, p[-2], p[-1], DOWN, UP))
        return [one for one in every if 0 <= one[0] < self.size]


class Lu(Strip):
    """A receive from any source, computation, a blocking send, the wait."""

    ABOUT = "LU: relaxation; irecv from any source, produce, send, wait, consume"
    ITERATIONS = 10

    def solve(self, comm, iterations):
        p = np.zeros((self.start.shape[0] + 2, self.width))
        p[1:-1] = self.start
        for _ in range(iterations):
            p[1:-1] = self.relaxed(comm, p)
        return p[1:-1].copy()

    def relaxed(self, comm, p):
        """The mean of the four neighbours, of every point."""
        from pyrdv import MPI

        new = np.empty_like(p[1:-1])
        for peer, mine, theirs, out, back in self.neighbours(p):
            request = comm.Irecv(theirs, MPI.ANY_SOURCE, back)
            self.mean(p, new, 1, new.shape[0] - 1)
            self.send(comm, mine, peer, out)
            self.wait(request)
        self.mean(p, new, 0, new.shape[0])
        return new

    @staticmethod
    def mean(p, new, first, last):
        """Rows `first` to `last` of `new`."""
        part, middle = new[first:last], p[first + 1:last + 1]
        np.add(p[first:last], p[first + 2:last + 2], out=part)
        part[:, 1:] += middle[:, :-1]
        part[:, :-1] += middle[:, 1:]
        part *= 0.25


class BlockingLu(Lu):
    """The same with blocking receives: rows go up and down the ranks, one after the other."""

    ABOUT = "LU with blocking receives: send and recv with each neighbour, in turn"

    def relaxed(self, comm, p):
        new = np.empty_like(p[1:-1])
        for peer, mine, theirs, out, back in self.neighbours(p):
            # The lower one sends first, so nobody waits for the other to receive.
            if self.rank < peer:
                self.send(comm, mine, peer, out)
            self.receive(comm, theirs, peer, back)
            if self.rank > peer:
                self.send(comm, mine, peer, out)
        self.mean(p, new, 0, new.shape[0])
        return new

    def receive(self, comm, room, peer, tag):
        """A blocking receive; it counts as a wait."""
        start = time.perf_counter()
        comm.Recv(room, peer, tag)
        self.waited += time.perf_counter() - start


class Mg(Strip):
    """Edges on each level of a cycle: both receives, both sends, both waits."""

    ABOUT = "MG: V-cycles, coarser along the rows; two irecvs, two sends, two waits on every level"
    ITERATIONS = 4
    LEAST = 64

    def solve(self, comm, iterations):
        u = np.zeros((self.start.shape[0] + 2, self.width))
        for _ in range(iterations):
            self.cycle(comm, u, self.start, 1.0)
        return u[1:-1].copy()

    def cycle(self, comm, u, f, stretch):
        """One V-cycle for A u = f."""
        self.smooth(comm, u, f, stretch)
        if u.shape[1] % 2 == 0 and u.shape[1] > self.LEAST:
            left = self.residual(comm, u, f, stretch)
            coarse = np.zeros((u.shape[0], u.shape[1] // 2))
            self.cycle(comm, coarse, (left[:, ::2] + left[:, 1::2]) / 2, stretch / 4)
            u[1:-1] += np.repeat(coarse[1:-1], 2, axis=1)
        self.smooth(comm, u, f, stretch)

    def smooth(self, comm, u, f, stretch):
        u[1:-1] += self.residual(comm, u, f, stretch) * (0.8 / (2 + 2 * stretch))

    def residual(self, comm, u, f, stretch):
        """f - A u, where A is the difference to the neighbours."""
        self.edges(comm, u)
        inner = u[1:-1]
        left = f - (2 + 2 * stretch) * inner
        left += u[:-2]
        left += u[2:]
        left[:, 1:] += stretch * inner[:, :-1]
        left[:, :-1] += stretch * inner[:, 1:]
        return left

    def edges(self, comm, u):
        near = self.neighbours(u)
        requests = [comm.Irecv(theirs, peer, back) for peer, _, theirs, _, back in near]
        for peer, mine, _, out, _ in near:
            self.send(comm, mine, peer, out)
        self.wait(*requests)


class Sp(Strip):
    """Lines through all ranks, in blocks: the next block is produced while the last one moves.

    Each step solves a tridiagonal system along every line, by elimination from the first rank to
    the last, and substitution back.
    """

    ABOUT = "SP: tridiagonal systems through all ranks; irecv, produce, wait, consume, isend"
    ITERATIONS, BLOCKS, PARTS = 3, 4, 1

    def __init__(self, comm, nbytes, whole=1):
        parts = self.PARTS
        lines = max(nbytes // (8 * parts * (parts + 1)), 1)
        super().__init__(comm, 8 * self.BLOCKS * lines * parts, whole)
        self.nbytes = nbytes
        self.shape = self.start.shape[0], self.BLOCKS, lines, parts

    def solve(self, comm, iterations):
        u = self.start.reshape(self.shape).copy()
        rows, blocks, lines, parts = self.shape
        # Of each row: what is left of the next row's unknowns, and of the right side.
        self.left = np.empty((blocks, rows, lines, parts, parts + 1))
        self.came = np.zeros((blocks, lines, parts, parts + 1))
        for _ in range(iterations):
            self.sweep(comm, u, range(rows), FORWARD, self.came, self.eliminate)
            back = np.zeros((blocks, lines, parts))
            self.sweep(comm, u, range(rows)[::-1], BACKWARD, back, self.substitute)
        return u.reshape(rows, -1)

    def sweep(self, comm, u, rows, tag, came, consume):
        """Every block through this rank's rows, from its neighbour to the other one."""
        before, after = ((self.rank - 1, self.rank + 1) if tag == FORWARD
                         else (self.rank + 1, self.rank - 1))
        sent, request = None, None
        for block in range(self.BLOCKS):
            if 0 <= before < self.size:
                request = comm.Irecv(came[block], before, tag)
            matrix = self.produce(u, block) if tag == FORWARD else None
            self.wait(sent, request)
            out = consume(u, matrix, block, rows, came[block])
            if 0 <= after < self.size:
                sent = self.isend(comm, out, after, tag)
        self.wait(sent)

    def produce(self, u, block):
        """The diagonals of all rows: they depend on the field."""
        part = u[:, block]
        return 4 * np.eye(self.PARTS) + 0.1 * part[..., :, None] * part[..., None, :]

    def eliminate(self, u, matrix, block, rows, before):
        unit = np.broadcast_to(-np.eye(self.PARTS), before[..., :-1].shape)
        for row in rows:
            right = (u[row, block] + before[..., -1])[..., None]
            before = self.divided(matrix[row] + before[..., :-1],
                                  np.concatenate((unit, right), axis=-1))
            self.left[block, row] = before
        return self.left[block, rows[-1]]

    def substitute(self, u, matrix, block, rows, after):
        for row in rows:
            left = self.left[block, row]
            after = left[..., -1] - (left[..., :-1] * after[..., None, :]).sum(axis=-1)
            u[row, block] = after
        return u[rows[-1], block]

    @staticmethod
    def divided(matrix, right):
        return right / matrix


class Bt(Sp):
    """The same with systems of blocks of five by five."""

    ABOUT = "BT: the same with blocks of 5 x 5; messages are larger, and more is produced"
    PARTS = 5

    @staticmethod
    def divided(matrix, right):
        return np.linalg.solve(matrix, right)


class Radix(Waits):
    """Keys are sorted digit by digit: each time every rank sends to every other one.

    Parameters
    ----------
    comm : Intracomm
        Of a power of two ranks.
    nbytes : int
        Bytes of a message, about: a quarter of what goes from one rank to another.
    """

    ABOUT = "RADIX: radix sort of integers; four irecvs, waitall, sends, with every other rank"
    ITERATIONS, BITS, PIECES = 4, 8, 4

    def __init__(self, comm, nbytes):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        if self.size & (self.size - 1):
            raise ValueError(f"RADIX runs on a power of two ranks, not on {self.size}")
        self.count = max(self.PIECES * nbytes * self.size // 8, self.size)
        self.digits = 0
        self.start = np.random.default_rng((7, self.rank)).integers(
            0, 1 << self.BITS * self.ITERATIONS, self.count)
        self.keys = self.start

    def run(self, comm, iterations):
        """Sort by so many digits with messages of `comm`; returns the seconds in waits."""
        self.begin()
        self.keys, self.digits = self.start, iterations
        for turn in range(iterations):
            self.keys = self.by_digit(comm, turn * self.BITS)
        return self.waited

    def by_digit(self, comm, shift):
        """The keys that come to this rank when all are ordered by one digit."""
        digit = (self.keys >> shift & (1 << self.BITS) - 1).astype(np.uint8)
        keys = self.keys[np.argsort(digit, kind="stable")]
        own = np.bincount(digit, minlength=1 << self.BITS)
        counts = np.empty((self.size, own.size), own.dtype)
        comm.Allgather(own, counts)
        # Where the keys of each rank and digit begin, in the order of all.
        begins = (counts.T.reshape(-1).cumsum() - counts.T.reshape(-1)).reshape(-1, self.size).T
        places = [self.places(begins[rank], counts[rank]) for rank in range(self.size)]
        new = np.empty_like(keys)
        for other in range(self.size):
            to, of = self.rank ^ other, self.rank * self.count
            mine = keys[self.within(places[self.rank], to)]
            theirs = places[to][self.within(places[to], self.rank)] - of
            new[theirs] = self.swap(comm, to, mine, theirs.size)
        return new

    @staticmethod
    def places(begins, counts):
        """Where each key of a rank belongs."""
        first = np.repeat(counts.cumsum() - counts, counts)
        return np.repeat(begins, counts) + np.arange(first.size) - first

    def within(self, places, rank):
        """The part of `places`, which ascend, that a rank holds afterwards."""
        low, high = np.searchsorted(places, (rank * self.count, (rank + 1) * self.count))
        return slice(low, high)

    def swap(self, comm, peer, mine, count):
        """Give a rank its keys and get `count` of it; the lower rank receives first."""
        if peer == self.rank:
            return mine
        came = np.empty(count, mine.dtype)
        for receives in (self.rank < peer, self.rank > peer):
            if receives:
                self.wait(*[comm.Irecv(part, peer, KEYS)
                            for part in np.array_split(came, self.PIECES)])
            else:
                for part in np.array_split(mine, self.PIECES):
                    self.send(comm, part, peer, KEYS)
        return came

    def check(self, comm):
        """Raise `Wrong` unless the keys are sorted over all ranks, and all there."""
        keys = self.keys & (1 << self.BITS * self.digits) - 1
        mark = (np.array([self.start.sum(), (self.start ** 2).sum()])
                - np.array([self.keys.sum(), (self.keys ** 2).sum()]))
        ends, total = np.empty((self.size, 2), keys.dtype), np.empty_like(mark)
        comm.Allgather(keys[[0, -1]], ends)
        comm.Allreduce(mark, total)
        if total.any():
            raise Wrong("RADIX: keys were lost or changed")
        if (np.diff(keys) < 0).any() or (np.diff(ends.reshape(-1)) < 0).any():
            raise Wrong(f"RADIX: the keys of rank {self.rank} are not sorted")


KERNELS = {"cg": Cg, "bt": Bt, "sp": Sp, "lu": Lu, "mg": Mg, "radix": Radix}
