"""Two kernels in the manner of the NAS Parallel Benchmarks: with new buffers, and with the same.

Both compute on what arrived, with NumPy, and both can tell whether the result is right.  What must
hold: all ranks make a kernel with the same arguments and call the same methods in the same order.
"""

import time

import numpy as np

PIECE, UP, DOWN = 1, 2, 3


class Wrong(Exception):
    """The result of a kernel is not right: messages did not arrive as they were sent."""


class Sort:
    """IS: integers are sorted over all ranks, by buckets of a random size, time and again.

    Each iteration has keys of its own and splits their range anew, so each message is of another
    size, from a new array into a new array.

    Parameters
    ----------
    comm : Intracomm
    nbytes : int
        Bytes that a rank sends to another one, about.
    """

    ABOUT = "IS: keys in buckets of random sizes, new arrays in each iteration, all to all"
    ITERATIONS = 20
    RANGE = 1 << 30

    def __init__(self, comm, nbytes):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        own = np.random.default_rng((1, self.rank))
        self.keys = own.integers(0, self.RANGE, max(nbytes // 8, 1) * self.size)
        self.result = None

    def run(self, comm, iterations):
        """Do so many iterations with messages of `comm`; returns the seconds in messages."""
        same = np.random.default_rng(2)         # on all ranks
        talked, sums = 0.0, np.zeros(2, np.int64)
        for _ in range(iterations):
            flip = int(same.integers(self.RANGE))
            bounds = self.bounds(same)
            keys = np.sort(self.keys ^ flip)
            pieces = np.split(keys, np.searchsorted(keys, bounds[1:-1]))
            start = time.perf_counter()
            arrived = self.exchange(comm, pieces)
            talked += time.perf_counter() - start
            # Runs that are sorted already: a merge.
            merged = np.sort(np.concatenate(arrived), kind="stable")
            sums += keys.sum(), merged.sum()
            low, high = bounds[self.rank], bounds[self.rank + 1]
            if merged.size and not low <= merged[0] <= merged[-1] < high:
                raise Wrong(f"IS: rank {self.rank} has keys that are not of its bucket")
        self.result = merged, sums
        return talked

    def bounds(self, random):
        """The ends of the buckets: each inner one lies anywhere in the middle of its share."""
        share = self.RANGE / self.size
        inner = (np.arange(1, self.size) + random.uniform(-0.45, 0.45, self.size - 1)) * share
        return [0, *inner.astype(np.int64).tolist(), self.RANGE]

    def exchange(self, comm, pieces):
        """Send each piece to its rank; returns what came from each rank."""
        from pyrdv import MPI

        counts = np.array([piece.size for piece in pieces], np.int64)
        coming = np.empty_like(counts)
        comm.Alltoall(counts, coming)
        arrived = [np.empty(count, np.int64) for count in coming]
        others = [(self.rank + k) % self.size for k in range(1, self.size)]
        requests = [comm.Irecv(arrived[peer], peer, PIECE) for peer in others]
        requests += [comm.Isend(pieces[peer], peer, PIECE) for peer in others]
        arrived[self.rank] = pieces[self.rank]
        MPI.Request.Waitall(requests)
        return arrived

    def check(self, comm):
        """Raise `Wrong` unless the keys of the last run are sorted, and all there."""
        merged, sums = self.result
        total = np.zeros(3, np.int64)
        comm.Allreduce(np.array([*sums, merged.size]), total)
        if total[0] != total[1] or total[2] != self.keys.size * self.size:
            raise Wrong("IS: keys were lost or changed")
        if (np.diff(merged) < 0).any():
            raise Wrong(f"IS: the keys of rank {self.rank} are not sorted")


class Gradients:
    """CG: conjugate gradients on a grid that is cut into strips; the same buffers, time and again.

    The matrix is 5 on the diagonal and -1 for each of the four neighbours in the grid.  Edges of
    strips go to the neighbours, sums of one number over all ranks.

    Parameters
    ----------
    comm : Intracomm
    nbytes : int
        Bytes of an edge.
    """

    ABOUT = "CG: edges of strips to neighbours and sums of one number, the same arrays for ever"
    ITERATIONS = 25
    ROWS = 16

    def __init__(self, comm, nbytes):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        shape = self.ROWS, max(nbytes // 8, 2)
        random = np.random.default_rng((3, self.rank))
        self.b = random.standard_normal(shape)
        self.x, self.r, self.q, self.scratch = (np.empty(shape) for _ in range(4))
        # A row of each neighbour above and below; zeros at the ends of the grid.
        self.p = np.zeros((shape[0] + 2, shape[1]))
        self.talked, self.told = 0.0, None

    def run(self, comm, iterations):
        """Solve anew with messages of `comm`; returns the seconds in messages."""
        x, r, q, p, scratch = self.x, self.r, self.q, self.p[1:-1], self.scratch
        self.talked = 0.0
        x.fill(0)
        np.copyto(r, self.b)
        np.copyto(p, r)
        rho = self.dot(comm, r, r)
        for _ in range(iterations):
            self.times_matrix(comm)
            alpha = rho / self.dot(comm, p, q)
            x += np.multiply(p, alpha, out=scratch)
            r -= np.multiply(q, alpha, out=scratch)
            rho, before = self.dot(comm, r, r), rho
            p *= rho / before
            p += r
        self.told = rho, iterations
        return self.talked

    def dot(self, comm, one, other):
        """The inner product over all ranks; not by BLAS, whose threads would want the CPUs."""
        own, total = np.multiply(one, other, out=self.scratch).sum(keepdims=True), np.empty((1, 1))
        start = time.perf_counter()
        comm.Allreduce(own, total)
        self.talked += time.perf_counter() - start
        return total.item()

    def times_matrix(self, comm):
        """q = A p, with the edges of the neighbours."""
        start = time.perf_counter()
        self.edges(comm)
        self.talked += time.perf_counter() - start
        p, q = self.p, self.q
        np.multiply(p[1:-1], 5, out=q)
        q -= p[:-2]
        q -= p[2:]
        q[:, 1:] -= p[1:-1, :-1]
        q[:, :-1] -= p[1:-1, 1:]

    def edges(self, comm):
        """Give the neighbours the first and the last row, and get theirs."""
        from pyrdv import MPI

        p, requests = self.p, []
        if self.rank > 0:
            requests += [comm.Irecv(p[0], self.rank - 1, DOWN), comm.Isend(p[1], self.rank - 1, UP)]
        if self.rank < self.size - 1:
            requests += [comm.Irecv(p[-1], self.rank + 1, UP),
                         comm.Isend(p[-2], self.rank + 1, DOWN)]
        MPI.Request.Waitall(requests)

    def check(self, comm):
        """Raise `Wrong` unless x solves the system as well as the last run said."""
        rho, iterations = self.told
        np.copyto(self.p[1:-1], self.x)
        self.times_matrix(comm)
        left = self.b - self.q
        whole = self.dot(comm, self.b, self.b)
        found = (self.dot(comm, left, left) / whole) ** 0.5
        said = (rho / whole) ** 0.5
        # Halved at least by each iteration, but for a factor of the condition number.
        bound = max(10 * 0.5 ** iterations, 1e-12)
        if not abs(found - said) <= 1e-9 + 1e-3 * said or not found <= bound:
            raise Wrong(f"CG: the residual after {iterations} iterations is {found:.1e}, where the "
                        f"solver says {said:.1e} and at most {bound:.1e} is right")


KERNELS = {"is": Sort, "cg": Gradients}
