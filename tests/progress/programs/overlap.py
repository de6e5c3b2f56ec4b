"""One side is in no call of the library while the other one waits: who came last moves the data."""

import os
import signal
import threading
import time

import numpy as np

from pyrdv import MPI
from tests.support.cases import run

MIB = 1 << 20


def told(name="fifo"):
    """Wait for the other rank outside of the library."""
    with open(name) as pipe:
        assert pipe.read() == "done"
    os.unlink(name)


def tell(name="fifo"):
    with open(name, "w") as pipe:
        pipe.write("done")


def grown(name, before):
    """How much a counter has grown."""
    return MPI.counters()[name] - before[name]


def receiver_computes(comm, size):
    """The receive comes first; its rank goes on only when the send is complete."""
    before = MPI.counters()
    if comm.rank == 1:
        os.mkfifo("fifo")
        room = np.zeros(size, np.uint8)
        request = comm.Irecv(room, 0, 7)
        comm.Barrier()
        told()
        request.Wait()
        assert (room == 5).all()
        assert grown("rtrs_sent", before) == 1
    else:
        comm.Barrier()
        comm.Send(np.full(size, 5, np.uint8), 1, 7)
        tell()
        assert grown("rtrs_used", before) == 1
    comm.Barrier()


def case_small_send_completes_while_the_receiver_computes(comm):
    receiver_computes(comm, MIB)


def case_large_send_completes_while_the_receiver_computes(comm):
    receiver_computes(comm, 64 * MIB)


def case_receive_completes_while_the_sender_computes(comm):
    """The receive comes first; the sender goes on only when the receive is complete.

    64 MiB are more than the send moves in its own call: the receiver helps, and then takes FIN.
    """
    before = MPI.counters()
    if comm.rank == 0:
        os.mkfifo("fifo")
        comm.Barrier()
        request = comm.Isend(np.full(64 * MIB, 5, np.uint8), 1, 7)
        told()
        request.Wait()
        assert grown("rtrs_used", before) == 1
    else:
        room = np.zeros(64 * MIB, np.uint8)
        request = comm.Irecv(room, 0, 7)
        comm.Barrier()
        request.Wait()
        assert (room == 5).all()
        tell()
    comm.Barrier()


def case_receive_moves_the_data_while_the_sender_computes(comm):
    """The send comes first; its rank is in no call any more when the receive is posted.

    Nor does the receiver call again before the data is in its buffer.
    """
    if comm.rank == 0:
        os.mkfifo("posted")
        os.mkfifo("fifo")
        comm.Barrier()
        request = comm.Isend(np.full(MIB, 5, np.uint8), 1, 7)
        tell("posted")
        told()
        request.Wait()
    else:
        room = np.zeros(MIB, np.uint8)
        comm.Barrier()
        told("posted")
        request = comm.Irecv(room, 0, 7)
        while not (room == 5).all():
            time.sleep(0.001)
        tell()
        request.Wait()
    comm.Barrier()


def case_a_second_interrupt_does_not_wait_for_a_peer_that_computes(comm):
    """Withdrawing a receive that has offered its buffer takes an answer from the sender."""
    if comm.rank == 0:
        comm.Barrier()
        told()
    else:
        os.mkfifo("fifo")
        before = MPI.counters()

        def press():
            for name in ("rtrs_sent", "revokes_sent"):
                while not grown(name, before):
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGINT)

        comm.Barrier()
        thread = threading.Thread(target=press)
        thread.start()
        try:
            comm.Recv(np.zeros(MIB, np.uint8), 0, 9)
            raise AssertionError("nothing was sent")
        except KeyboardInterrupt:
            pass
        thread.join()
        tell()
    comm.Barrier()


run(globals())
