"""The public names as mpi4py has them: ``from pyrdv import MPI``."""

from typing import Any, ClassVar

from pyrdv.api.buffers import (
    BOTTOM as BOTTOM,
    IN_PLACE as IN_PLACE,
    BottomType as BottomType,
    InPlaceType as InPlaceType,
    Memory as _Memory,
)
from pyrdv.api.communicator import KEY_TAG_UB as TAG_UB, Comm as Comm, Intercomm as Intercomm
from pyrdv.api.constants import (
    ANY_SOURCE as ANY_SOURCE,
    ANY_TAG as ANY_TAG,
    BSEND_OVERHEAD as BSEND_OVERHEAD,
    COMM_TYPE_HW_GUIDED as COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED as COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED as COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED as COMM_TYPE_SHARED,
    CONGRUENT as CONGRUENT,
    IDENT as IDENT,
    PROC_NULL as PROC_NULL,
    ROOT as ROOT,
    SIMILAR as SIMILAR,
    THREAD_FUNNELED as THREAD_FUNNELED,
    THREAD_MULTIPLE as THREAD_MULTIPLE,
    THREAD_SERIALIZED as THREAD_SERIALIZED,
    THREAD_SINGLE as THREAD_SINGLE,
    UNDEFINED as UNDEFINED,
    UNEQUAL as UNEQUAL,
)
from pyrdv.api.datatypes import (
    AINT as AINT,
    BFLOAT16_T as BFLOAT16_T,
    BOOL as BOOL,
    BYTE as BYTE,
    C_BOOL as C_BOOL,
    C_COMPLEX as C_COMPLEX,
    C_DOUBLE_COMPLEX as C_DOUBLE_COMPLEX,
    C_FLOAT_COMPLEX as C_FLOAT_COMPLEX,
    C_LONG_DOUBLE_COMPLEX as C_LONG_DOUBLE_COMPLEX,
    CHAR as CHAR,
    CHARACTER as CHARACTER,
    COMPLEX as COMPLEX,
    COMPLEX8 as COMPLEX8,
    COMPLEX16 as COMPLEX16,
    COUNT as COUNT,
    CXX_BOOL as CXX_BOOL,
    CXX_DOUBLE_COMPLEX as CXX_DOUBLE_COMPLEX,
    CXX_FLOAT_COMPLEX as CXX_FLOAT_COMPLEX,
    CXX_LONG_DOUBLE_COMPLEX as CXX_LONG_DOUBLE_COMPLEX,
    DATATYPE_NULL as DATATYPE_NULL,
    DOUBLE as DOUBLE,
    DOUBLE_COMPLEX as DOUBLE_COMPLEX,
    DOUBLE_INT as DOUBLE_INT,
    DOUBLE_PRECISION as DOUBLE_PRECISION,
    F_BOOL as F_BOOL,
    F_COMPLEX as F_COMPLEX,
    F_DOUBLE as F_DOUBLE,
    F_DOUBLE_COMPLEX as F_DOUBLE_COMPLEX,
    F_FLOAT as F_FLOAT,
    F_FLOAT_COMPLEX as F_FLOAT_COMPLEX,
    F_INT as F_INT,
    FLOAT as FLOAT,
    FLOAT16_T as FLOAT16_T,
    FLOAT32_T as FLOAT32_T,
    FLOAT64_T as FLOAT64_T,
    FLOAT_INT as FLOAT_INT,
    INT as INT,
    INT8_T as INT8_T,
    INT16_T as INT16_T,
    INT32_T as INT32_T,
    INT64_T as INT64_T,
    INT_INT as INT_INT,
    INTEGER as INTEGER,
    INTEGER1 as INTEGER1,
    INTEGER2 as INTEGER2,
    INTEGER4 as INTEGER4,
    INTEGER8 as INTEGER8,
    LOGICAL as LOGICAL,
    LONG as LONG,
    LONG_DOUBLE as LONG_DOUBLE,
    LONG_DOUBLE_INT as LONG_DOUBLE_INT,
    LONG_INT as LONG_INT,
    LONG_LONG as LONG_LONG,
    OFFSET as OFFSET,
    PACKED as PACKED,
    REAL as REAL,
    REAL2 as REAL2,
    REAL4 as REAL4,
    REAL8 as REAL8,
    SHORT as SHORT,
    SHORT_INT as SHORT_INT,
    SIGNED_CHAR as SIGNED_CHAR,
    SIGNED_INT as SIGNED_INT,
    SIGNED_LONG as SIGNED_LONG,
    SIGNED_LONG_LONG as SIGNED_LONG_LONG,
    SIGNED_SHORT as SIGNED_SHORT,
    SINT8_T as SINT8_T,
    SINT16_T as SINT16_T,
    SINT32_T as SINT32_T,
    SINT64_T as SINT64_T,
    TWOINT as TWOINT,
    UINT8_T as UINT8_T,
    UINT16_T as UINT16_T,
    UINT32_T as UINT32_T,
    UINT64_T as UINT64_T,
    UNSIGNED as UNSIGNED,
    UNSIGNED_CHAR as UNSIGNED_CHAR,
    UNSIGNED_INT as UNSIGNED_INT,
    UNSIGNED_LONG as UNSIGNED_LONG,
    UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
    UNSIGNED_SHORT as UNSIGNED_SHORT,
    WCHAR as WCHAR,
    Datatype as Datatype,
)
from pyrdv.api.generalized import Grequest as _Grequest
from pyrdv.api.groups import GROUP_EMPTY as GROUP_EMPTY, GROUP_NULL as GROUP_NULL, Group as Group
from pyrdv.api.info import (
    INFO_ENV as INFO_ENV,
    INFO_NULL as INFO_NULL,
    MAX_INFO_KEY as MAX_INFO_KEY,
    MAX_INFO_VAL as MAX_INFO_VAL,
    Info as Info,
)
from pyrdv.api.message import Message as Message
from pyrdv.api.objects import Pickle as Pickle, pickle as pickle
from pyrdv.api.ops import (
    BAND as BAND,
    BOR as BOR,
    BXOR as BXOR,
    LAND as LAND,
    LOR as LOR,
    LXOR as LXOR,
    MAX as MAX,
    MAXLOC as MAXLOC,
    MIN as MIN,
    MINLOC as MINLOC,
    NO_OP as NO_OP,
    OP_NULL as OP_NULL,
    PROD as PROD,
    REPLACE as REPLACE,
    SUM as SUM,
    Op as Op,
)
from pyrdv.api.persistent import Prequest as Prequest
from pyrdv.api.raw import (
    BUFFER_AUTOMATIC as BUFFER_AUTOMATIC,
    BufferAutomaticType as BufferAutomaticType,
    buffer as buffer,
)
from pyrdv.api.request import Request as Request
from pyrdv.api.status import Status as Status
from pyrdv.collectives.intracomm import Intracomm as Intracomm
from pyrdv.error_codes import (
    ERR_ARG as ERR_ARG,
    ERR_BUFFER as ERR_BUFFER,
    ERR_COMM as ERR_COMM,
    ERR_COUNT as ERR_COUNT,
    ERR_DIMS as ERR_DIMS,
    ERR_GROUP as ERR_GROUP,
    ERR_IN_STATUS as ERR_IN_STATUS,
    ERR_INFO as ERR_INFO,
    ERR_INTERN as ERR_INTERN,
    ERR_KEYVAL as ERR_KEYVAL,
    ERR_LASTCODE as ERR_LASTCODE,
    ERR_NO_MEM as ERR_NO_MEM,
    ERR_OP as ERR_OP,
    ERR_OTHER as ERR_OTHER,
    ERR_PENDING as ERR_PENDING,
    ERR_PROC_FAILED as ERR_PROC_FAILED,
    ERR_RANK as ERR_RANK,
    ERR_REQUEST as ERR_REQUEST,
    ERR_REVOKED as ERR_REVOKED,
    ERR_ROOT as ERR_ROOT,
    ERR_TAG as ERR_TAG,
    ERR_TOPOLOGY as ERR_TOPOLOGY,
    ERR_TRUNCATE as ERR_TRUNCATE,
    ERR_TYPE as ERR_TYPE,
    ERR_UNKNOWN as ERR_UNKNOWN,
    ERR_UNSUPPORTED_OPERATION as ERR_UNSUPPORTED_OPERATION,
    SUCCESS as SUCCESS,
)
from pyrdv.errors import Error as Exception

VERSION: int
SUBVERSION: int
memory = buffer
REQUEST_NULL: Request
MESSAGE_NULL: Message
MESSAGE_NO_PROC: Message
COMM_NULL: Intracomm
COMM_WORLD: Intracomm
COMM_SELF: Intracomm
MAX_PROCESSOR_NAME: int
MAX_ERROR_STRING: int
MAX_OBJECT_NAME: int
MAX_LIBRARY_VERSION_STRING: int

class Grequest(_Grequest):
    home: ClassVar[Comm | None]

def Init() -> None: ...
def Init_thread(required: int = 3) -> int: ...
def Finalize() -> None: ...
def Is_initialized() -> bool: ...
def Is_finalized() -> bool: ...
def Is_thread_main() -> bool: ...
def Query_thread() -> int: ...
def Wtime() -> float: ...
def Wtick() -> float: ...
def Get_processor_name() -> str: ...
def Get_version() -> tuple[int, int]: ...
def Get_library_version() -> str: ...
def Get_error_class(errorcode: int | Exception) -> int: ...
def Get_error_string(errorcode: int | Exception) -> str: ...
def get_vendor() -> tuple[str, tuple[int, int, int]]: ...
def Alloc_mem(size: int, info: Info | None = None) -> buffer: ...
def Free_mem(mem: buffer) -> None: ...
def Attach_buffer(buf: _Memory | BufferAutomaticType | None) -> None: ...
def Detach_buffer() -> Any: ...
def Flush_buffer() -> None: ...
def counters() -> dict[str, int]: ...
def fabrics() -> dict[int, str]: ...

__all__ = [
    "AINT", "ANY_SOURCE", "ANY_TAG", "Alloc_mem", "Attach_buffer", "BAND", "BFLOAT16_T", "BOOL",
    "BOR", "BOTTOM", "BSEND_OVERHEAD", "BUFFER_AUTOMATIC", "BXOR", "BottomType",
    "BufferAutomaticType", "BYTE", "CHAR", "CHARACTER", "COMM_NULL", "COMM_SELF",
    "COMM_TYPE_HW_GUIDED", "COMM_TYPE_HW_UNGUIDED", "COMM_TYPE_RESOURCE_GUIDED", "COMM_TYPE_SHARED",
    "COMM_WORLD", "COMPLEX", "COMPLEX16", "COMPLEX8", "CONGRUENT", "COUNT", "CXX_BOOL",
    "CXX_DOUBLE_COMPLEX", "CXX_FLOAT_COMPLEX", "CXX_LONG_DOUBLE_COMPLEX", "C_BOOL", "C_COMPLEX",
    "C_DOUBLE_COMPLEX", "C_FLOAT_COMPLEX", "C_LONG_DOUBLE_COMPLEX", "Comm", "DATATYPE_NULL",
    "DOUBLE", "DOUBLE_COMPLEX", "DOUBLE_INT", "DOUBLE_PRECISION", "Datatype", "Detach_buffer",
    "ERR_ARG", "ERR_BUFFER", "ERR_COMM", "ERR_COUNT", "ERR_DIMS", "ERR_GROUP", "ERR_INFO",
    "ERR_INTERN", "ERR_IN_STATUS", "ERR_KEYVAL", "ERR_LASTCODE", "ERR_NO_MEM", "ERR_OP",
    "ERR_OTHER", "ERR_PENDING", "ERR_PROC_FAILED", "ERR_RANK", "ERR_REQUEST", "ERR_REVOKED",
    "ERR_ROOT", "ERR_TAG", "ERR_TOPOLOGY", "ERR_TRUNCATE", "ERR_TYPE", "ERR_UNKNOWN",
    "ERR_UNSUPPORTED_OPERATION", "Exception", "FLOAT", "FLOAT16_T", "FLOAT32_T", "FLOAT64_T",
    "FLOAT_INT", "F_BOOL", "F_COMPLEX", "F_DOUBLE", "F_DOUBLE_COMPLEX", "F_FLOAT",
    "F_FLOAT_COMPLEX", "F_INT", "Finalize", "Flush_buffer", "Free_mem", "GROUP_EMPTY", "GROUP_NULL",
    "Get_error_class", "Get_error_string", "Get_library_version", "Get_processor_name",
    "Get_version", "Grequest", "Group", "IDENT", "INFO_ENV", "INFO_NULL", "INT", "INT16_T",
    "INT32_T", "INT64_T", "INT8_T", "INTEGER", "INTEGER1", "INTEGER2", "INTEGER4", "INTEGER8",
    "INT_INT", "IN_PLACE", "InPlaceType", "Info", "Init", "Init_thread", "Intercomm", "Intracomm",
    "Is_finalized", "Is_initialized", "Is_thread_main", "LAND", "LOGICAL", "LONG", "LONG_DOUBLE",
    "LONG_DOUBLE_INT", "LONG_INT", "LONG_LONG", "LOR", "LXOR", "MAX", "MAXLOC", "MAX_ERROR_STRING",
    "MAX_INFO_KEY", "MAX_INFO_VAL", "MAX_LIBRARY_VERSION_STRING", "MAX_OBJECT_NAME",
    "MAX_PROCESSOR_NAME", "MESSAGE_NO_PROC", "MESSAGE_NULL", "MIN", "MINLOC", "Message", "NO_OP",
    "OFFSET", "OP_NULL", "Op", "PACKED", "PROC_NULL", "PROD", "Pickle", "Prequest", "Query_thread",
    "REAL", "REAL2", "REAL4", "REAL8", "REPLACE", "REQUEST_NULL", "ROOT", "Request", "SHORT",
    "SHORT_INT", "SIGNED_CHAR", "SIGNED_INT", "SIGNED_LONG", "SIGNED_LONG_LONG", "SIGNED_SHORT",
    "SIMILAR", "SINT16_T", "SINT32_T", "SINT64_T", "SINT8_T", "SUBVERSION", "SUCCESS", "SUM",
    "Status", "TAG_UB", "THREAD_FUNNELED", "THREAD_MULTIPLE", "THREAD_SERIALIZED", "THREAD_SINGLE",
    "TWOINT", "UINT16_T", "UINT32_T", "UINT64_T", "UINT8_T", "UNDEFINED", "UNEQUAL", "UNSIGNED",
    "UNSIGNED_CHAR", "UNSIGNED_INT", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "UNSIGNED_SHORT",
    "VERSION", "WCHAR", "Wtick", "Wtime", "buffer", "counters", "fabrics", "get_vendor", "memory",
    "pickle",
]
