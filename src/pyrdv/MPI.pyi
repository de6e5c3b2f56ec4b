"""The public names as mpi4py has them: ``from pyrdv import MPI``."""

from typing_extensions import Buffer

from pyrdv.api.buffers import (
    BOTTOM as BOTTOM,
)
from pyrdv.api.buffers import (
    IN_PLACE as IN_PLACE,
)
from pyrdv.api.communicator import KEY_TAG_UB as TAG_UB
from pyrdv.api.communicator import Comm as Comm
from pyrdv.api.constants import (
    ANY_SOURCE as ANY_SOURCE,
)
from pyrdv.api.constants import (
    ANY_TAG as ANY_TAG,
)
from pyrdv.api.constants import (
    BSEND_OVERHEAD as BSEND_OVERHEAD,
)
from pyrdv.api.constants import (
    CONGRUENT as CONGRUENT,
)
from pyrdv.api.constants import (
    IDENT as IDENT,
)
from pyrdv.api.constants import (
    PROC_NULL as PROC_NULL,
)
from pyrdv.api.constants import (
    ROOT as ROOT,
)
from pyrdv.api.constants import (
    SIMILAR as SIMILAR,
)
from pyrdv.api.constants import (
    THREAD_FUNNELED as THREAD_FUNNELED,
)
from pyrdv.api.constants import (
    THREAD_MULTIPLE as THREAD_MULTIPLE,
)
from pyrdv.api.constants import (
    THREAD_SERIALIZED as THREAD_SERIALIZED,
)
from pyrdv.api.constants import (
    THREAD_SINGLE as THREAD_SINGLE,
)
from pyrdv.api.constants import (
    UNDEFINED as UNDEFINED,
)
from pyrdv.api.constants import (
    UNEQUAL as UNEQUAL,
)
from pyrdv.api.datatypes import (
    AINT as AINT,
)
from pyrdv.api.datatypes import (
    BFLOAT16_T as BFLOAT16_T,
)
from pyrdv.api.datatypes import (
    BOOL as BOOL,
)
from pyrdv.api.datatypes import (
    BYTE as BYTE,
)
from pyrdv.api.datatypes import (
    C_BOOL as C_BOOL,
)
from pyrdv.api.datatypes import (
    C_COMPLEX as C_COMPLEX,
)
from pyrdv.api.datatypes import (
    C_DOUBLE_COMPLEX as C_DOUBLE_COMPLEX,
)
from pyrdv.api.datatypes import (
    C_FLOAT_COMPLEX as C_FLOAT_COMPLEX,
)
from pyrdv.api.datatypes import (
    C_LONG_DOUBLE_COMPLEX as C_LONG_DOUBLE_COMPLEX,
)
from pyrdv.api.datatypes import (
    CHAR as CHAR,
)
from pyrdv.api.datatypes import (
    CHARACTER as CHARACTER,
)
from pyrdv.api.datatypes import (
    COMPLEX as COMPLEX,
)
from pyrdv.api.datatypes import (
    COMPLEX8 as COMPLEX8,
)
from pyrdv.api.datatypes import (
    COMPLEX16 as COMPLEX16,
)
from pyrdv.api.datatypes import (
    COUNT as COUNT,
)
from pyrdv.api.datatypes import (
    CXX_BOOL as CXX_BOOL,
)
from pyrdv.api.datatypes import (
    CXX_DOUBLE_COMPLEX as CXX_DOUBLE_COMPLEX,
)
from pyrdv.api.datatypes import (
    CXX_FLOAT_COMPLEX as CXX_FLOAT_COMPLEX,
)
from pyrdv.api.datatypes import (
    CXX_LONG_DOUBLE_COMPLEX as CXX_LONG_DOUBLE_COMPLEX,
)
from pyrdv.api.datatypes import (
    DATATYPE_NULL as DATATYPE_NULL,
)
from pyrdv.api.datatypes import (
    DOUBLE as DOUBLE,
)
from pyrdv.api.datatypes import (
    DOUBLE_COMPLEX as DOUBLE_COMPLEX,
)
from pyrdv.api.datatypes import (
    DOUBLE_INT as DOUBLE_INT,
)
from pyrdv.api.datatypes import (
    DOUBLE_PRECISION as DOUBLE_PRECISION,
)
from pyrdv.api.datatypes import (
    F_BOOL as F_BOOL,
)
from pyrdv.api.datatypes import (
    F_COMPLEX as F_COMPLEX,
)
from pyrdv.api.datatypes import (
    F_DOUBLE as F_DOUBLE,
)
from pyrdv.api.datatypes import (
    F_DOUBLE_COMPLEX as F_DOUBLE_COMPLEX,
)
from pyrdv.api.datatypes import (
    F_FLOAT as F_FLOAT,
)
from pyrdv.api.datatypes import (
    F_FLOAT_COMPLEX as F_FLOAT_COMPLEX,
)
from pyrdv.api.datatypes import (
    F_INT as F_INT,
)
from pyrdv.api.datatypes import (
    FLOAT as FLOAT,
)
from pyrdv.api.datatypes import (
    FLOAT16_T as FLOAT16_T,
)
from pyrdv.api.datatypes import (
    FLOAT32_T as FLOAT32_T,
)
from pyrdv.api.datatypes import (
    FLOAT64_T as FLOAT64_T,
)
from pyrdv.api.datatypes import (
    FLOAT_INT as FLOAT_INT,
)
from pyrdv.api.datatypes import (
    INT as INT,
)
from pyrdv.api.datatypes import (
    INT8_T as INT8_T,
)
from pyrdv.api.datatypes import (
    INT16_T as INT16_T,
)
from pyrdv.api.datatypes import (
    INT32_T as INT32_T,
)
from pyrdv.api.datatypes import (
    INT64_T as INT64_T,
)
from pyrdv.api.datatypes import (
    INT_INT as INT_INT,
)
from pyrdv.api.datatypes import (
    INTEGER as INTEGER,
)
from pyrdv.api.datatypes import (
    INTEGER1 as INTEGER1,
)
from pyrdv.api.datatypes import (
    INTEGER2 as INTEGER2,
)
from pyrdv.api.datatypes import (
    INTEGER4 as INTEGER4,
)
from pyrdv.api.datatypes import (
    INTEGER8 as INTEGER8,
)
from pyrdv.api.datatypes import (
    LOGICAL as LOGICAL,
)
from pyrdv.api.datatypes import (
    LONG as LONG,
)
from pyrdv.api.datatypes import (
    LONG_DOUBLE as LONG_DOUBLE,
)
from pyrdv.api.datatypes import (
    LONG_DOUBLE_INT as LONG_DOUBLE_INT,
)
from pyrdv.api.datatypes import (
    LONG_INT as LONG_INT,
)
from pyrdv.api.datatypes import (
    LONG_LONG as LONG_LONG,
)
from pyrdv.api.datatypes import (
    OFFSET as OFFSET,
)
from pyrdv.api.datatypes import (
    PACKED as PACKED,
)
from pyrdv.api.datatypes import (
    REAL as REAL,
)
from pyrdv.api.datatypes import (
    REAL2 as REAL2,
)
from pyrdv.api.datatypes import (
    REAL4 as REAL4,
)
from pyrdv.api.datatypes import (
    REAL8 as REAL8,
)
from pyrdv.api.datatypes import (
    SHORT as SHORT,
)
from pyrdv.api.datatypes import (
    SHORT_INT as SHORT_INT,
)
from pyrdv.api.datatypes import (
    SIGNED_CHAR as SIGNED_CHAR,
)
from pyrdv.api.datatypes import (
    SIGNED_INT as SIGNED_INT,
)
from pyrdv.api.datatypes import (
    SIGNED_LONG as SIGNED_LONG,
)
from pyrdv.api.datatypes import (
    SIGNED_LONG_LONG as SIGNED_LONG_LONG,
)
from pyrdv.api.datatypes import (
    SIGNED_SHORT as SIGNED_SHORT,
)
from pyrdv.api.datatypes import (
    SINT8_T as SINT8_T,
)
from pyrdv.api.datatypes import (
    SINT16_T as SINT16_T,
)
from pyrdv.api.datatypes import (
    SINT32_T as SINT32_T,
)
from pyrdv.api.datatypes import (
    SINT64_T as SINT64_T,
)
from pyrdv.api.datatypes import (
    TWOINT as TWOINT,
)
from pyrdv.api.datatypes import (
    UINT8_T as UINT8_T,
)
from pyrdv.api.datatypes import (
    UINT16_T as UINT16_T,
)
from pyrdv.api.datatypes import (
    UINT32_T as UINT32_T,
)
from pyrdv.api.datatypes import (
    UINT64_T as UINT64_T,
)
from pyrdv.api.datatypes import (
    UNSIGNED as UNSIGNED,
)
from pyrdv.api.datatypes import (
    UNSIGNED_CHAR as UNSIGNED_CHAR,
)
from pyrdv.api.datatypes import (
    UNSIGNED_INT as UNSIGNED_INT,
)
from pyrdv.api.datatypes import (
    UNSIGNED_LONG as UNSIGNED_LONG,
)
from pyrdv.api.datatypes import (
    UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
)
from pyrdv.api.datatypes import (
    UNSIGNED_SHORT as UNSIGNED_SHORT,
)
from pyrdv.api.datatypes import (
    WCHAR as WCHAR,
)
from pyrdv.api.datatypes import (
    Datatype as Datatype,
)
from pyrdv.api.message import Message as Message
from pyrdv.api.objects import Pickle as Pickle
from pyrdv.api.objects import pickle as pickle
from pyrdv.api.ops import (
    BAND as BAND,
)
from pyrdv.api.ops import (
    BOR as BOR,
)
from pyrdv.api.ops import (
    BXOR as BXOR,
)
from pyrdv.api.ops import (
    LAND as LAND,
)
from pyrdv.api.ops import (
    LOR as LOR,
)
from pyrdv.api.ops import (
    LXOR as LXOR,
)
from pyrdv.api.ops import (
    MAX as MAX,
)
from pyrdv.api.ops import (
    MAXLOC as MAXLOC,
)
from pyrdv.api.ops import (
    MIN as MIN,
)
from pyrdv.api.ops import (
    MINLOC as MINLOC,
)
from pyrdv.api.ops import (
    NO_OP as NO_OP,
)
from pyrdv.api.ops import (
    OP_NULL as OP_NULL,
)
from pyrdv.api.ops import (
    PROD as PROD,
)
from pyrdv.api.ops import (
    REPLACE as REPLACE,
)
from pyrdv.api.ops import (
    SUM as SUM,
)
from pyrdv.api.ops import (
    Op as Op,
)
from pyrdv.api.request import Request as Request
from pyrdv.api.status import Status as Status
from pyrdv.collectives.intracomm import Intracomm as Intracomm
from pyrdv.errors import (
    ERR_ARG as ERR_ARG,
)
from pyrdv.errors import (
    ERR_BUFFER as ERR_BUFFER,
)
from pyrdv.errors import (
    ERR_COMM as ERR_COMM,
)
from pyrdv.errors import (
    ERR_COUNT as ERR_COUNT,
)
from pyrdv.errors import (
    ERR_DIMS as ERR_DIMS,
)
from pyrdv.errors import (
    ERR_GROUP as ERR_GROUP,
)
from pyrdv.errors import (
    ERR_IN_STATUS as ERR_IN_STATUS,
)
from pyrdv.errors import (
    ERR_INFO as ERR_INFO,
)
from pyrdv.errors import (
    ERR_INTERN as ERR_INTERN,
)
from pyrdv.errors import (
    ERR_KEYVAL as ERR_KEYVAL,
)
from pyrdv.errors import (
    ERR_LASTCODE as ERR_LASTCODE,
)
from pyrdv.errors import (
    ERR_NO_MEM as ERR_NO_MEM,
)
from pyrdv.errors import (
    ERR_OP as ERR_OP,
)
from pyrdv.errors import (
    ERR_OTHER as ERR_OTHER,
)
from pyrdv.errors import (
    ERR_PENDING as ERR_PENDING,
)
from pyrdv.errors import (
    ERR_PROC_FAILED as ERR_PROC_FAILED,
)
from pyrdv.errors import (
    ERR_RANK as ERR_RANK,
)
from pyrdv.errors import (
    ERR_REQUEST as ERR_REQUEST,
)
from pyrdv.errors import (
    ERR_REVOKED as ERR_REVOKED,
)
from pyrdv.errors import (
    ERR_ROOT as ERR_ROOT,
)
from pyrdv.errors import (
    ERR_TAG as ERR_TAG,
)
from pyrdv.errors import (
    ERR_TOPOLOGY as ERR_TOPOLOGY,
)
from pyrdv.errors import (
    ERR_TRUNCATE as ERR_TRUNCATE,
)
from pyrdv.errors import (
    ERR_TYPE as ERR_TYPE,
)
from pyrdv.errors import (
    ERR_UNKNOWN as ERR_UNKNOWN,
)
from pyrdv.errors import (
    ERR_UNSUPPORTED_OPERATION as ERR_UNSUPPORTED_OPERATION,
)
from pyrdv.errors import (
    SUCCESS as SUCCESS,
)
from pyrdv.errors import Error as Exception

REQUEST_NULL: Request
MESSAGE_NULL: Message
COMM_WORLD: Intracomm
COMM_SELF: Intracomm

def Init() -> None: ...
def Finalize() -> None: ...
def Is_initialized() -> bool: ...
def Is_finalized() -> bool: ...
def Query_thread() -> int: ...
def Wtime() -> float: ...
def Wtick() -> float: ...
def Get_processor_name() -> str: ...
def Get_version() -> tuple[int, int]: ...
def Get_library_version() -> str: ...
def Attach_buffer(buf: Buffer) -> None: ...
def Detach_buffer() -> Buffer | None: ...
def counters() -> dict[str, int]: ...
def fabrics() -> dict[int, str]: ...

__all__ = [
    "AINT", "ANY_SOURCE", "ANY_TAG", "Attach_buffer", "BAND", "BFLOAT16_T", "BOOL", "BOR",
    "BOTTOM", "BSEND_OVERHEAD", "BXOR", "BYTE", "CHAR", "CHARACTER", "COMM_SELF", "COMM_WORLD",
    "COMPLEX", "COMPLEX16", "COMPLEX8", "CONGRUENT", "COUNT", "CXX_BOOL", "CXX_DOUBLE_COMPLEX",
    "CXX_FLOAT_COMPLEX", "CXX_LONG_DOUBLE_COMPLEX", "C_BOOL", "C_COMPLEX", "C_DOUBLE_COMPLEX",
    "C_FLOAT_COMPLEX", "C_LONG_DOUBLE_COMPLEX", "Comm", "DATATYPE_NULL", "DOUBLE",
    "DOUBLE_COMPLEX", "DOUBLE_INT", "DOUBLE_PRECISION", "Datatype", "Detach_buffer", "ERR_ARG",
    "ERR_BUFFER", "ERR_COMM", "ERR_COUNT", "ERR_DIMS", "ERR_GROUP", "ERR_INFO", "ERR_INTERN",
    "ERR_IN_STATUS", "ERR_KEYVAL", "ERR_LASTCODE", "ERR_NO_MEM", "ERR_OP", "ERR_OTHER",
    "ERR_PENDING", "ERR_PROC_FAILED", "ERR_RANK", "ERR_REQUEST", "ERR_REVOKED", "ERR_ROOT",
    "ERR_TAG", "ERR_TOPOLOGY", "ERR_TRUNCATE", "ERR_TYPE", "ERR_UNKNOWN",
    "ERR_UNSUPPORTED_OPERATION", "Exception", "FLOAT", "FLOAT16_T", "FLOAT32_T", "FLOAT64_T",
    "FLOAT_INT", "F_BOOL", "F_COMPLEX", "F_DOUBLE", "F_DOUBLE_COMPLEX", "F_FLOAT",
    "F_FLOAT_COMPLEX", "F_INT", "Finalize", "Get_library_version", "Get_processor_name",
    "Get_version", "IDENT", "INT", "INT16_T", "INT32_T", "INT64_T", "INT8_T", "INTEGER",
    "INTEGER1", "INTEGER2", "INTEGER4", "INTEGER8", "INT_INT", "IN_PLACE", "Init", "Intracomm",
    "Is_finalized", "Is_initialized", "LAND", "LOGICAL", "LONG", "LONG_DOUBLE",
    "LONG_DOUBLE_INT", "LONG_INT", "LONG_LONG", "LOR", "LXOR", "MAX", "MAXLOC", "MESSAGE_NULL",
    "MIN", "MINLOC", "Message", "NO_OP", "OFFSET", "OP_NULL", "Op", "PACKED", "PROC_NULL",
    "PROD", "Pickle", "Query_thread", "REAL", "REAL2", "REAL4", "REAL8", "REPLACE",
    "REQUEST_NULL", "ROOT", "Request", "SHORT", "SHORT_INT", "SIGNED_CHAR", "SIGNED_INT",
    "SIGNED_LONG", "SIGNED_LONG_LONG", "SIGNED_SHORT", "SIMILAR", "SINT16_T", "SINT32_T",
    "SINT64_T", "SINT8_T", "SUCCESS", "SUM", "Status", "TAG_UB", "THREAD_FUNNELED",
    "THREAD_MULTIPLE", "THREAD_SERIALIZED", "THREAD_SINGLE", "TWOINT", "UINT16_T", "UINT32_T",
    "UINT64_T", "UINT8_T", "UNDEFINED", "UNEQUAL", "UNSIGNED", "UNSIGNED_CHAR", "UNSIGNED_INT",
    "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "UNSIGNED_SHORT", "WCHAR", "Wtick", "Wtime",
    "counters", "fabrics", "pickle",
]
