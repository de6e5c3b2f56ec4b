"""A package of mpi4py's name with `pyrdv.MPI` behind it.

What is pure Python in mpi4py (``util``, ``bench``, ``run``…) comes from its source, whose folder
``src/mpi4py`` the variable MPI4PY_SOURCE names.
"""

import os
import sys

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
