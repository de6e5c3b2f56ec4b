"""mpi4py's names for what the tests use, without joining a job as `pyrdv.MPI` does."""

from pyrdv.api.communicator import KEY_TAG_UB as TAG_UB
from pyrdv.api.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from pyrdv.api.datatypes import PREDEFINED
from pyrdv.api.request import Request
from pyrdv.api.status import Status
from pyrdv.errors import ERR_TRUNCATE, Error as Exception

BYTE = PREDEFINED["BYTE"]
REQUEST_NULL = Request()

__all__ = ["ANY_SOURCE", "ANY_TAG", "BYTE", "ERR_TRUNCATE", "PROC_NULL", "REQUEST_NULL",
           "TAG_UB", "Exception", "Status"]
