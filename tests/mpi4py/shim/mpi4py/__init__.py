"""A package of mpi4py's name with `pyrdv.MPI` behind it.

What is pure Python in mpi4py (``util``, ``bench``, ``run``…) comes from its source, whose folder
``src/mpi4py`` the variable MPI4PY_SOURCE names.  Names that mpi4py keeps for itself but its own
tests and ``util`` use are made here.
"""

import os
import sys
import threading

import pyrdv.MPI

sys.modules["mpi4py.MPI"] = MPI = pyrdv.MPI

if "MPI4PY_SOURCE" in os.environ:
    __path__.append(os.environ["MPI4PY_SOURCE"])


class _Rc:
    """Options of mpi4py, of which none has an effect."""

    initialize = threads = fast_reduce = recv_mprobe = True
    thread_level, errors, finalize, irecv_bufsz = "multiple", "exception", None, 32768

    def __call__(self, **options):
        for name, value in options.items():
            setattr(self, name, value)


rc = sys.modules["mpi4py.rc"] = _Rc()


def _comm_lock_table(comm):
    return comm.identity.locks


def _comm_lock(comm, key=None):
    return comm.identity.locks.setdefault(key, threading.Lock())


def _commctx_intra(comm):
    """A communicator for messages behind the user's back, and a tag; all members ask alike."""
    inside, tag = comm.identity.locks.get("inside") or (comm.Dup(), 0)
    comm.identity.locks["inside"] = inside, tag + 1
    return inside, tag


def _commctx_inter(comm):
    raise NotImplementedError("intercommunicators")


for _name in ("_comm_lock_table", "_comm_lock", "_commctx_intra", "_commctx_inter"):
    setattr(MPI, _name, globals()[_name])
