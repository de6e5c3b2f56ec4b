"""The public names as mpi4py has them: ``from pyrdv import MPI``.

Importing this module joins the job (or makes a world of one) and has it left
again when the interpreter ends.
"""

import atexit as _atexit
import copyreg as _copyreg
import os as _os
import threading as _threading
import time as _time

from pyrdv import error_codes as _error_codes, errors as _errors, world as _world_module
from pyrdv.api import buffered as _buffered, leaving as _leaving, missing as _missing
from pyrdv.api.buffers import BOTTOM, IN_PLACE, BottomType, InPlaceType
from pyrdv.api.communicator import KEY_TAG_UB as TAG_UB, Comm, Intercomm
from pyrdv.api.constants import (
    ANY_SOURCE,
    ANY_TAG,
    BSEND_OVERHEAD,
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED,
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
from pyrdv.api.datatypes import PREDEFINED as _datatypes, Datatype
from pyrdv.api.generalized import Grequest as _Grequest
from pyrdv.api.groups import GROUP_EMPTY, GROUP_NULL, Group
from pyrdv.api.info import INFO_ENV, INFO_NULL, MAX_INFO_KEY, MAX_INFO_VAL, Info
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
from pyrdv.api.persistent import Prequest
from pyrdv.api.raw import BUFFER_AUTOMATIC, BufferAutomaticType, buffer
from pyrdv.api.request import Request
from pyrdv.api.status import Status
from pyrdv.collectives.intracomm import Intracomm
from pyrdv.errors import Error as Exception

#: The version of the MPI standard whose names are used.
VERSION, SUBVERSION = 4, 1

#: As mpi4py called it before.
memory = buffer

REQUEST_NULL = Request()
MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message.from_no_process()
COMM_NULL = Intracomm()

#: The longest texts, in characters.
MAX_PROCESSOR_NAME = 128
MAX_ERROR_STRING = 512
MAX_OBJECT_NAME = 128
MAX_LIBRARY_VERSION_STRING = 64

globals().update(_datatypes)
for _name in dir(_error_codes):
    if _name == "SUCCESS" or _name.startswith("ERR_"):
        globals()[_name] = getattr(_error_codes, _name)

_main_thread = _threading.get_ident()
_world = _world_module.init()
COMM_WORLD = _world.comm_world
COMM_SELF = _world.comm_self
# Exit handlers run last in, first out: before the one that ends the world.
_atexit.register(_leaving.leave)
_leaving.quiet_daemons()


class Grequest(_Grequest):
    """An operation of the user's own, to be waited for together with others."""

    __slots__ = ()
    home = COMM_SELF


# --- pickling of constants: by name.  Other handles belong to this process.

_CONSTANTS = {
    kind: {name: globals()[name] for name in names.split()} for kind, names in (
        (Comm, "COMM_NULL"), (Intercomm, "COMM_NULL"),
        (Intracomm, "COMM_NULL COMM_WORLD COMM_SELF"),
        (Group, "GROUP_NULL GROUP_EMPTY"), (Request, "REQUEST_NULL"), (Prequest, "REQUEST_NULL"),
        (Grequest, "REQUEST_NULL"), (Message, "MESSAGE_NULL MESSAGE_NO_PROC"))
}


def _constant(name, kind=None):
    """The constant called `name`, or a handle of `kind` that is equal to it."""
    value = globals()[name]
    return value if kind is None else kind(value) if value else kind()


def _reduce(handle):
    for name, value in _CONSTANTS[type(handle)].items():
        if handle is value:
            return _constant, (name,)
    for name, value in _CONSTANTS[type(handle)].items():
        if handle == value:
            return _constant, (name, type(handle))
    raise _errors.ArgumentError(
        f"{handle!r} cannot be pickled: it means nothing to another process")


for _kind in _CONSTANTS:
    _copyreg.pickle(_kind, _reduce)


def Init():
    """Nothing to do: importing this module has joined the job."""


def Finalize():
    """Leave the job in good order; further calls do nothing.

    Waits until what this rank sent is received or can never be.
    """
    _world.finalize()


def Init_thread(required=THREAD_MULTIPLE):
    """Nothing to do; returns `THREAD_MULTIPLE`, whatever is required."""
    return THREAD_MULTIPLE


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
    return VERSION, SUBVERSION


def Get_library_version():
    """Name and version of this library."""
    from pyrdv import __version__

    return f"pyrdv {__version__}"


def Attach_buffer(buf):
    """Bound buffered sends of this process by the size of `buf`."""
    _buffered.pool_of(_world.engine).attach(buf)


def Detach_buffer():
    """Wait for buffered sends; returns the attached buffer."""
    Flush_buffer()
    return _buffered.pool_of(_world.engine).detach()


def Flush_buffer():
    """Wait for the buffered sends of this process."""
    _buffered.pool_of(_world.engine).flush()


def Alloc_mem(size, info=None):
    """New memory of `size` bytes, a `buffer`; hints in `info` have no effect."""
    return buffer.allocate(size)


def Free_mem(mem):
    """Give memory of `Alloc_mem` back."""
    mem.release()


def Get_error_class(errorcode):
    """The error class of an error code: they are the same.

    Raises
    ------
    ArgumentError
        There is no such code.
    """
    return _errors.error_class(errorcode)


def Get_error_string(errorcode):
    """A few words about an error class."""
    return _errors.error_string(errorcode)


def Is_thread_main():
    """Whether this is the thread that imported this module."""
    return _threading.get_ident() == _main_thread


def get_vendor():
    """Name and version of this library, as ``(str, (int, int, int))``."""
    from pyrdv import __version__

    return "pyrdv", tuple(int(part) for part in __version__.split(".")[:3])


def counters():
    """What the engine of this process has counted, as a dict."""
    return _world.engine.counters()


def fabrics():
    """How this rank reaches each rank: a dict of rank to ``self``, ``shm`` or ``verbs DEVICE``."""
    return _world.fabrics()


def __getattr__(name):
    # Only for what is not there.
    raise _missing.attribute("MPI", __name__, name)


__all__ = [
    "ANY_SOURCE", "ANY_TAG", "Alloc_mem", "Attach_buffer", "BAND", "BOR", "BOTTOM",
    "BSEND_OVERHEAD", "BUFFER_AUTOMATIC", "BXOR", "BottomType", "BufferAutomaticType", "COMM_NULL",
    "COMM_SELF", "COMM_TYPE_HW_GUIDED", "COMM_TYPE_HW_UNGUIDED", "COMM_TYPE_RESOURCE_GUIDED",
    "COMM_TYPE_SHARED", "COMM_WORLD", "CONGRUENT", "Comm", "Datatype", "Detach_buffer", "Exception",
    "Finalize", "Flush_buffer", "Free_mem", "GROUP_EMPTY", "GROUP_NULL", "Get_error_class",
    "Get_error_string", "Get_library_version", "Get_processor_name", "Get_version", "Grequest",
    "Group", "IDENT", "INFO_ENV", "INFO_NULL", "IN_PLACE", "InPlaceType", "Info", "Init",
    "Init_thread", "Intercomm", "Intracomm", "Is_finalized", "Is_initialized", "Is_thread_main",
    "LAND", "LOR", "LXOR", "MAX", "MAXLOC", "MAX_ERROR_STRING", "MAX_INFO_KEY", "MAX_INFO_VAL",
    "MAX_LIBRARY_VERSION_STRING", "MAX_OBJECT_NAME", "MAX_PROCESSOR_NAME", "MESSAGE_NO_PROC",
    "MESSAGE_NULL", "MIN", "MINLOC", "Message", "NO_OP", "OP_NULL", "Op", "PROC_NULL", "PROD",
    "Pickle", "Prequest", "Query_thread", "REPLACE", "REQUEST_NULL", "ROOT", "Request", "SIMILAR",
    "SUBVERSION", "SUM", "Status", "TAG_UB", "THREAD_FUNNELED", "THREAD_MULTIPLE",
    "THREAD_SERIALIZED", "THREAD_SINGLE", "UNDEFINED", "UNEQUAL", "VERSION", "Wtick", "Wtime",
    "buffer", "counters", "fabrics", "get_vendor", "memory", "pickle",
    *_datatypes,
    *[name for name in dir(_error_codes) if name == "SUCCESS" or name.startswith("ERR_")],
]
