"""Many cases in one job: what a program of functions ``case_…(comm)`` ends with.

Each case gets a communicator of its own and must leave nothing behind: no
operation, message or region of the engine may be left in use after it.
"""

import contextlib
import gc
import sys
import time
import traceback

from pyrdv import MPI

world = MPI.COMM_WORLD


def held():
    """What the engine still holds once everybody has come to rest; all zero without a leak."""
    names = ("ops_in_use", "regions_in_use", "messages_in_use", "posted", "unexpected_now")
    end = time.monotonic() + 30
    while True:
        world.Barrier()
        gc.collect()
        world.Iprobe()
        MPI._world.engine.reap()
        left = {name: MPI.counters()[name] for name in names if MPI.counters()[name]}
        # What is left may be others' part of the next two calls, so one look is not enough.  All
        # stop at the same one: rank 0's clock decides.
        if not world.allreduce(len(left)) or world.bcast(time.monotonic() > end, root=0):
            return left


def run(namespace, pairs=False):
    """Run every case of a program on all ranks; the first failure ends the job.

    Arguments of the program, if there are any, name the cases to be run.  With `pairs` each two
    ranks have a communicator of their own, for cases that two ranks play.
    """
    chosen = sys.argv[1:]
    for name, function in list(namespace.items()):
        if not name.startswith("case_") or chosen and name not in chosen:
            continue
        comm = world.Split(world.rank // 2) if pairs else world.Dup()
        began = time.perf_counter()
        try:
            function(comm)
            world.Barrier()
            comm.Free()
            left = held()
            assert not left, f"left in the engine: {left}"
        except BaseException:
            print(f"failed {name} rank {world.rank}", flush=True)
            traceback.print_exc()
            raise SystemExit(1) from None
        if world.rank == 0:
            print(f"passed {name} {time.perf_counter() - began:.2f} s", flush=True)


@contextlib.contextmanager
def raises(kind, *parts):
    """Demand an exception of class `kind` whose text holds all `parts`."""
    try:
        yield
    except kind as error:
        for part in parts:
            assert str(part) in str(error), f"{part!r} is not in {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


def resident(which="VmRSS"):
    """Resident memory of this process in bytes (or its peak, ``VmHWM``)."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(which + ":"):
                return int(line.split()[1]) * 1024
    raise AssertionError(f"{which} is not there")


def reset_peak():
    """Have ``VmHWM`` begin anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def cpu_seconds():
    """Processor time of this process so far."""
    return time.process_time()


def log(*words):
    """A line of standard error, for a developer."""
    print(*words, file=sys.stderr, flush=True)
