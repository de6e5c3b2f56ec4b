"""Half round trips and bandwidth over several sizes: messages.py LIBRARY KIND POINT,POINT...

LIBRARY is pyrdv or mpi4py: one text for both. Two ranks of MPI.COMM_WORLD, one NumPy array on each
side, used again by every message. KIND and POINT:

latency, SIZE:TRIPS
    Round trips of blocking Send and Recv, each one timed, as ib_send_lat does it. The figure is
    half of the median in microseconds; the mean is beside it. A tenth run before the clock does.
bandwidth, SIZE:WINDOWS:WINDOW
    Windows of Isend and Irecv, Waitall, and an answer of one byte by the receiver. The figure is
    all bytes over all time in MB/s, as "BW average" of ib_write_bw is. A window of four goes first.
"""

import pathlib
import sys

import clock
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "peers" / "programs"))

import common  # noqa: E402

DATA, ANSWER = 1, 2
#: Messages before the clock runs; enough for connections, registrations and page tables.
WARM = 4


def latency(comm, size, count, now):
    """Return clock readings, count + 1 of them, around each of `count` round trips."""
    out, back = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    peer = 1 - comm.Get_rank()
    stamps = [0] * (count + 1)
    send, recv = comm.Send, comm.Recv
    comm.Barrier()
    if peer == 1:
        stamps[0] = now()
        for turn in range(1, count + 1):
            send(out, peer, DATA)
            recv(back, peer, DATA)
            stamps[turn] = now()
    else:
        for _ in range(count):
            recv(back, peer, DATA)
            send(out, peer, DATA)
    check(back, peer)
    return stamps


def check(buffer, peer):
    """End the job if what arrived is not what was sent: ones over zeros."""
    if not buffer.all():
        raise SystemExit(f"the bytes from rank {peer} are not those that it sent")


def bandwidth(MPI, comm, size, count, window, now):
    """Return clock readings around each of `count` windows."""
    peer = 1 - comm.Get_rank()
    buffer, answer = np.full(size, peer, np.uint8), np.zeros(1, np.uint8)
    stamps = [0] * (count + 1)
    isend, irecv, waitall = comm.Isend, comm.Irecv, MPI.Request.Waitall
    comm.Barrier()
    stamps[0] = now()
    for turn in range(1, count + 1):
        if peer == 1:
            waitall([isend(buffer, peer, DATA) for _ in range(window)])
            comm.Recv(answer, peer, ANSWER)
        else:
            waitall([irecv(buffer, peer, DATA) for _ in range(window)])
            comm.Send(answer, peer, ANSWER)
        stamps[turn] = now()
    check(buffer, peer)
    return stamps


def measure(MPI, comm, kind, words, source):
    """Return the figure of one size; `words` is SIZE:TRIPS or SIZE:WINDOWS:WINDOW as numbers."""
    size, count, *rest = words
    if kind == "latency":
        latency(comm, size, max(2, count // 10), source.now)
        trips = np.diff(latency(comm, size, count, source.now)) * source.seconds() * 0.5e6
        return {"size": size, "value": float(np.median(trips)), "mean": float(trips.mean())}
    window = rest[0]
    bandwidth(MPI, comm, size, 1, min(window, WARM), source.now)
    stamps = bandwidth(MPI, comm, size, count, window, source.now)
    seconds = (stamps[-1] - stamps[0]) * source.seconds()
    return {"size": size, "value": size * window * count / seconds / 1e6}


def reached(MPI):
    """Return how pyrdv reaches rank 1; of another library nothing is known."""
    return MPI.fabrics()[1] if hasattr(MPI, "fabrics") else ""


def main():
    library, kind, points = sys.argv[1:4]
    MPI = common.library(library)
    comm = MPI.COMM_WORLD
    if comm.Get_size() != 2 or kind not in ("latency", "bandwidth"):
        raise SystemExit("messages.py pyrdv|mpi4py latency|bandwidth POINTS, on two ranks")
    source = clock.Clock()
    for point in points.split(","):
        figure = measure(MPI, comm, kind, [int(word) for word in point.split(":")], source)
        if comm.Get_rank() == 0:
            common.answer({**figure, "clock": source.name, "reached": reached(MPI)})


if __name__ == "__main__":
    main()
