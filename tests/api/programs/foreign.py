"""Every public callable with objects in places where they do not belong.

What is raised does not matter here: the process must live.  The name of each call is written
before it is made, so the last line tells which one ended the process.
"""

import inspect
import itertools
import signal
import sys
from contextlib import suppress
from functools import partial

import numpy as np

from pyrdv import MPI

STRANGE = (None, object(), 5, [None])
# They end the process, or the world, by design; addresses are believed.
LEFT_OUT = {"Abort", "Finalize", "fromaddress", "Free_mem"}


class Waited(BaseException):
    """The call was right after all, and waits for a message that nobody sends."""


def give_up(*_):
    raise Waited


def alive():
    """Fresh objects of every kind, in use where they can be."""
    comm = MPI.COMM_SELF
    comm.isend("for a matched probe", 0, 99)
    return {
        "Comm": MPI.COMM_WORLD, "Dup": comm.Dup(), "COMM_NULL": MPI.COMM_NULL,
        "isend": comm.isend(1, 0, 98), "irecv": comm.irecv(None, 0, 97),
        "Isend": comm.Isend(np.zeros(100_000), 0, 96), "Irecv": comm.Irecv(np.zeros(3), 0, 95),
        "Send_init": comm.Send_init(np.zeros(3), 0, 94), "Grequest": MPI.Grequest.Start(),
        "Isendrecv": comm.Isendrecv(np.zeros(3), 0, 93, np.zeros(3), 0, 93),
        "Message": comm.mprobe(0, 99), "MESSAGE_NULL": MPI.MESSAGE_NULL,
        "MESSAGE_NO_PROC": MPI.MESSAGE_NO_PROC, "REQUEST_NULL": MPI.REQUEST_NULL,
        "Status": MPI.Status(), "Group": comm.Get_group(), "GROUP_NULL": MPI.GROUP_NULL,
        "GROUP_EMPTY": MPI.GROUP_EMPTY, "Datatype": MPI.DOUBLE, "Op": MPI.SUM,
        "OP_NULL": MPI.OP_NULL,
        "Info": MPI.Info.Create(), "INFO_NULL": MPI.INFO_NULL, "pickle": MPI.Pickle(),
        "buffer": MPI.buffer(bytearray(8)),
        # Made without their constructors.
        **{f"bare {kind.__name__}": kind.__new__(kind)
           for kind in (MPI.Request, MPI.Prequest, MPI.Grequest, MPI.Message, MPI.Status,
                        MPI.Intracomm, MPI.Pickle, MPI.Group, MPI.Datatype)},
        **{f"bare {name}": type(made).__new__(type(made))
           for name, made in (("ObjectRecv", comm.irecv(None, 0, 92)),
                              ("Together", comm.Isendrecv(b"", 0, 91, bytearray(1), 0, 91)))},
    }


def callables():
    """(name, callable) of the module, its classes and its objects."""
    for name in sorted(set(dir(MPI)) - LEFT_OUT):
        thing = getattr(MPI, name)
        if not name.startswith("_") and callable(thing) and not isinstance(thing, MPI.Datatype):
            yield f"MPI.{name}", thing
    special = ("__init__", "__eq__", "__setitem__", "__getitem__")
    for what, thing in alive().items():
        for name in sorted(set(dir(type(thing))) - LEFT_OUT):
            if not name.startswith("__") or name in special:
                if callable(getattr(type(thing), name)):
                    yield f"{what}.{name}", getattr(thing, name)
                else:
                    yield f"{what}.{name}", partial(getattr, thing, name)
                    yield f"{what}.{name} = ", partial(setattr, thing, name)


def most(function):
    """How many arguments are tried."""
    try:
        return min(3, len(inspect.signature(function).parameters))
    except (TypeError, ValueError):
        return 3


def call(name, function, values):
    """Make one call, whatever comes of it."""
    print(name, values, file=sys.stderr)
    with suppress(Waited):      # the clock may run out just behind the call, too
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        try:
            function(*values)
        except (Exception, Waited):
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def main():
    signal.signal(signal.SIGALRM, give_up)
    made = 0
    for name, function in callables():
        for count in range(1, most(function) + 1):
            for values in itertools.product(STRANGE, repeat=count):
                call(name, function, values)
                made += 1
    # A live request among strange ones.
    for strange, name in itertools.product(STRANGE, sorted(dir(MPI.Prequest))):
        if name.lower().endswith(("all", "any", "some")):
            call(name, getattr(MPI.Prequest, name), ([MPI.COMM_SELF.isend(1, 0), strange],))
            made += 1
    print(made)


if __name__ == "__main__":
    main()
