"""The public names as mpi4py has them: ``from pyrdv import MPI``.

Importing this module joins the job (or makes a world of one) and has it left
again when the interpreter ends.
"""

import os as _os
import time as _time

from pyrdv import errors as _errors
from pyrdv import world as _world_module
from pyrdv.api.buffers import BOTTOM, IN_PLACE
from pyrdv.api.communicator import KEY_TAG_UB as TAG_UB
from pyrdv.api.constants import (
    ANY_SOURCE,
    ANY_TAG,
    BSEND_OVERHEAD,
    CONGRUENT,
    IDENT,
    PROC_NULL,
    ROOT,
    SIMILAR,
    THREAD_FUNNELED,
    THREAD_MULTIPLE,
    THREAD_SERIALIZED,
    THREAD_SINGLE,
    UNDEFINED,
    UNEQUAL,
)
from pyrdv.api.datatypes import PREDEFINED as _datatypes
from pyrdv.api.datatypes import Datatype
from pyrdv.api.message import Message
from pyrdv.api.objects import Pickle, pickle
from pyrdv.api.ops import (
    BAND,
    BOR,
    BXOR,
    LAND,
    LOR,
    LXOR,
    MAX,
    MAXLOC,
    MIN,
    MINLOC,
    NO_OP,
    OP_NULL,
    PROD,
    REPLACE,
    SUM,
    Op,
)
from pyrdv.api.request import Request
from pyrdv.api.status import Status
from pyrdv.collectives.intracomm import Intracomm
from pyrdv.errors import Error as Exception

Comm = Intracomm.__mro__[1]

REQUEST_NULL = Request()
MESSAGE_NULL = Message()

globals().update(_datatypes)
for _name in dir(_errors):
    if _name == "SUCCESS" or _name.startswith("ERR_"):
        globals()[_name] = getattr(_errors, _name)

_world = _world_module.init()
COMM_WORLD = _world.comm_world
COMM_SELF = _world.comm_self


def Init():
    """Nothing to do: importing this module has joined the job."""


def Finalize():
    """Leave the job in good order; further calls do nothing.

    Waits until what this rank sent is received or can never be.
    """
    _world.finalize()


def Is_initialized():
    """True: importing this module has joined the job."""
    return True


def Is_finalized():
    """Whether this rank has left the job."""
    return _world.finalized


def Query_thread():
    """`THREAD_MULTIPLE`: any thread may communicate at any time."""
    return THREAD_MULTIPLE


def Wtime():
    """Seconds since some moment in the past."""
    return _time.perf_counter()


def Wtick():
    """Resolution of `Wtime` in seconds."""
    return _time.get_clock_info("perf_counter").resolution


def Get_processor_name():
    """Name of this host."""
    return _os.uname().nodename


def Get_version():
    """The version of the MPI standard whose names are used."""
    return (4, 1)


def Get_library_version():
    """Name and version of this library."""
    from pyrdv import __version__

    return f"pyrdv {__version__}"


def Attach_buffer(buf):
    """Bound buffered sends of this process by the size of `buf`."""
    COMM_SELF.Attach_buffer(buf)


def Detach_buffer():
    """Wait for buffered sends; returns the attached buffer."""
    return COMM_SELF.Detach_buffer()


def counters():
    """What the engine of this process has counted, as a dict."""
    return _world.engine.counters()


def fabrics():
    """How this rank reaches each rank: a dict of rank to ``self``, ``shm`` or ``verbs DEVICE``."""
    return _world.fabrics()


__all__ = [
    "ANY_SOURCE", "ANY_TAG", "BAND", "BOR", "BOTTOM", "BSEND_OVERHEAD", "BXOR", "COMM_SELF",
    "COMM_WORLD", "CONGRUENT", "Comm", "Datatype", "Exception", "IDENT", "IN_PLACE", "Intracomm",
    "LAND", "LOR",
    "LXOR", "MAX", "MAXLOC", "MESSAGE_NULL", "MIN", "MINLOC", "Message", "NO_OP", "OP_NULL", "Op",
    "PROC_NULL", "PROD", "Pickle", "REPLACE", "REQUEST_NULL", "ROOT", "Request", "SIMILAR", "SUM",
    "Status", "TAG_UB", "THREAD_FUNNELED", "THREAD_MULTIPLE", "THREAD_SERIALIZED", "THREAD_SINGLE",
    "UNDEFINED", "UNEQUAL", "pickle",
    "Attach_buffer", "Detach_buffer", "Finalize", "Get_library_version", "Get_processor_name",
    "Get_version", "Init", "Is_finalized", "Is_initialized", "Query_thread", "Wtick", "Wtime",
    "counters", "fabrics",
    *_datatypes,
    *[name for name in dir(_errors) if name == "SUCCESS" or name.startswith("ERR_")],
]
