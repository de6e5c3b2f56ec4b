"""The end of a peer is an exception in those who wait for it; the others go on.

    pyrdv run -n 3 examples/losing_a_peer.py
"""

from pyrdv import MPI
from pyrdv.errors import PeerLostError

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
if rank == 0:
    try:
        comm.recv(source=1)
    except PeerLostError as error:
        print(f"rank {error.peer}: {error.reason}")
    print("rank 2 says", comm.recv(source=2))
elif rank == 2:
    comm.send("hello", dest=0)
# Rank 1 ends without sending anything.
