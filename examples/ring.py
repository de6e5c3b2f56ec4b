"""Every rank sends to the next one and receives from the one before.

    pyrdv run -n 4 examples/ring.py
"""

import numpy as np

from pyrdv import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()

out = np.full(1_000_000, rank, dtype=np.float64)
inn = np.empty_like(out)

# Both transfers are under way at once, so nobody waits for anybody in a circle.
requests = [
    comm.Isend(out, dest=(rank + 1) % size, tag=7),
    comm.Irecv(inn, source=(rank - 1) % size, tag=7),
]
MPI.Request.Waitall(requests)
print(f"rank {rank} of {size} got {inn[0]:.0f}")
