"""Python objects as messages, and a matched probe that learns who sent what.

    pyrdv run -n 2 examples/objects.py
"""

import numpy as np

from pyrdv import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
if rank == 0:
    comm.send({"step": 3, "field": np.arange(10)}, dest=1)
    comm.send("done", dest=1, tag=2)
elif rank == 1:
    message = comm.recv(source=0)
    print(message["step"], message["field"].sum())
    found = comm.mprobe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    print(f"tag {found.tag} from rank {found.source}: {found.recv()}")
