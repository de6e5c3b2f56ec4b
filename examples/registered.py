"""Memory that is registered with the RDMA device before its first message, and between messages."""

import numpy as np

import pyrdv
from pyrdv import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank

# One array at a time.
data = pyrdv.zeros(100_000)
room = pyrdv.empty(100_000)
data += comm.rank
comm.Sendrecv(data, other, 0, room, other, 0)
print(f"rank {comm.rank} received {room[-1]:.0f}")

# All arrays that NumPy makes, the results of expressions among them.
with pyrdv.registered_memory():
    total = data + 2 * room
comm.Sendrecv(total, other, 0, room, other, 0)
print(f"rank {comm.rank} received {room[-1]:.0f}")

# Memory that is not an array's own, which would be registered for each message.
buffer = bytearray(100_000)
with pyrdv.register(buffer):
    for _ in range(10):
        comm.Sendrecv(buffer, other, 0, room, other, 0)

# NumPy does not move an array that may be registered; pyrdv lets go of it.
numbers = np.arange(100_000)
comm.Sendrecv(numbers, other, 0, room, other, 0)
pyrdv.release(numbers)
numbers.resize(200_000)
print(f"rank {comm.rank} has {len(numbers)} numbers")
