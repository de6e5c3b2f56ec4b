"""The first program: rank 0 sends an array to rank 1.

    pyrdv run -n 2 examples/exchange.py
"""

import numpy as np

from pyrdv import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
if rank == 0:
    request = comm.Isend(np.arange(1e6), dest=1)
    total = sum(range(1000))  # compute: the receiver fetches the data meanwhile
    request.Wait()
    print(f"rank 0 computed {total}")
elif rank == 1:
    data = np.empty(1_000_000)
    comm.Recv(data, source=0)
    print(f"rank 1 received {len(data)} numbers, the last {data[-1]:.0f}")
