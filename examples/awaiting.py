"""Requests in coroutines: a receive that other work need not wait for, and one with a time limit.

    pyrdv run -n 2 examples/awaiting.py
"""

import asyncio

import numpy as np

from pyrdv import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()


async def exchange():
    if rank > 1:
        return
    if rank == 0:
        await comm.Isend(np.arange(1000.0), dest=1)
        print(await comm.irecv(source=1))
        return
    inn = np.empty(1000)
    receive = comm.Irecv(inn, source=0)
    await asyncio.gather(receive, asyncio.sleep(0.01))
    print(f"received {inn.sum():.0f}")
    try:
        async with asyncio.timeout(0.05):
            await comm.irecv(source=0, tag=9)
    except TimeoutError:
        print("nobody sent tag 9: the receive was withdrawn")
    await comm.isend("rank 1 is done", dest=0)


asyncio.run(exchange())
