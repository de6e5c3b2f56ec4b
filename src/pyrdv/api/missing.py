"""What mpi4py has and this version has not: the table, and the errors that name it.

Each name stands below the feature that it belongs to. `tests/mpi4py/test_names.py` compares the
table with mpi4py's own stub: no name is absent here, and none is left over.
"""

import sys
from typing import NamedTuple

from pyrdv.errors import UnsupportedError


class Feature(NamedTuple):
    """Something that this version has not.

    Parameters
    ----------
    name : str
        Completes "this version has no ...".
    instead : str
        What to do instead, as a command; empty where there is nothing.
    """

    name: str
    instead: str = ""


TOPOLOGIES = Feature(
    "topologies", "compute the ranks of neighbours from comm.rank, as numpy.unravel_index does")
INTERCOMMS = Feature(
    "intercommunicators", "use one communicator of all, and its Split or Create_group")
DYNAMIC = Feature(
    "dynamic processes", "start all ranks together, with `pyrdv run -n RANKS`")
SESSIONS = Feature("sessions", "use MPI.COMM_WORLD, which exists from the import on")
ATTRIBUTES = Feature(
    "attributes of handles", "keep a dict of your own; communicators can be its keys")
PREDEFINED = Feature("predefined attributes besides TAG_UB", "see MPI.COMM_WORLD.size")
ERRHANDLERS = Feature(
    "error handlers", "catch MPI.Exception: every error is an exception")
ERROR_CLASSES = Feature("error classes of your own", "derive a class from MPI.Exception")
INFO_ERRORS = Feature("error classes of single hints", "compare with MPI.ERR_INFO")
PARTITIONED = Feature(
    "partitioned messages", "send each part by Isend, with a tag of its own")
FAULTS = Feature(
    "fault tolerance of communicators", "catch pyrdv.errors.PeerLostError, which says who is gone")
PLAIN = Feature(
    "collective calls of a plain Comm", "use an MPI.Intracomm, such as MPI.COMM_WORLD")
ALLTOALLW = Feature("Alltoallw", "use Alltoallv, or Isend and Irecv")
HANDLES = Feature("handles of MPI's C and Fortran interfaces")
OWN = Feature("internals of mpi4py")
WINDOWS = Feature(
    "one-sided communication (RMA windows)", "send messages; ranks of one host can also share "
    "memory by multiprocessing.shared_memory")
FILES = Feature(
    "files (MPI-IO)", "let each rank write its part, by os.pwrite or numpy.memmap")
PROFILING = Feature("profiling control")
DERIVED = Feature(
    "derived datatypes", "send a contiguous copy (numpy.ascontiguousarray) or an array with a "
    "structured dtype, which travels as bytes")
PACKING = Feature("packing of messages", "use the module struct, or numpy.ndarray.tobytes")
FORTRAN = Feature(
    "parametrized datatypes of Fortran", "use one with a size in its name, such as MPI.REAL8")
WIDTHS = Feature("Fortran datatypes of this size", "send the bytes as MPI.BYTE")
ADDRESSES = Feature(
    "arithmetic with addresses", "use ints; numpy.ndarray.ctypes.data and MPI.buffer.address")
ABI = Feature("binary interface of MPI (ABI)")
HARDWARE = Feature(
    "description of the hardware", "use os.sched_getaffinity, or Split_type(MPI.COMM_TYPE_SHARED)")

_NUMBERS = "f2py fromhandle fromint handle py2f toint"
_BLOCKING = (
    "Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv Reduce Scatter "
    "Scatterv allgather allreduce alltoall barrier bcast gather reduce scatter")
_STARTING = (
    "Iallgather Iallgatherv Iallreduce Ialltoall Ialltoallv Ibarrier Ibcast Igather Igatherv "
    "Ireduce Ireduce_scatter Ireduce_scatter_block Iscatter Iscatterv")
_PREPARING = (
    "Allgather_init Allgatherv_init Allreduce_init Alltoall_init Alltoallv_init Barrier_init "
    "Bcast_init Gather_init Gatherv_init Reduce_init Reduce_scatter_init "
    "Reduce_scatter_block_init Scatter_init Scatterv_init")
_MAKING = "Clone Create Dup Dup_with_info Free Idup Idup_with_info Split Split_type free"

#: Per class the features that are missing, and the names by which mpi4py has them. "MPI" is the
#: module; a class also lacks what its base lacks, unless it defines it. What only a subclass has
#: in mpi4py may stand in the base too, for those who look there.
MISSING = {
    "Comm": {
        PLAIN: (f"{_BLOCKING} {_STARTING} {_PREPARING} {_MAKING} Reduce_scatter "
                "Reduce_scatter_block"),
        TOPOLOGIES: (
            "Create_cart Create_graph Create_dist_graph Create_dist_graph_adjacent Cart_map "
            "Graph_map"),
        INTERCOMMS: "Create_intercomm",
        DYNAMIC: "Spawn Spawn_multiple Accept Connect Disconnect Join",
        ATTRIBUTES: "Set_attr Delete_attr Create_keyval Free_keyval",
        ERRHANDLERS: "Set_errhandler Get_errhandler Call_errhandler Create_errhandler",
        PARTITIONED: "Psend_init Precv_init",
        FAULTS: "Agree Iagree Shrink Ishrink Revoke Is_revoked Get_failed Ack_failed",
        ALLTOALLW: "Alltoallw Ialltoallw Alltoallw_init",
        HANDLES: _NUMBERS,
    },
    "Intercomm": {
        INTERCOMMS: (
            "Create_from_groups Get_remote_group Get_remote_size Merge remote_group remote_size"),
    },
    "Datatype": {
        DERIVED: (
            "Create_contiguous Create_darray Create_dup Create_hindexed Create_hindexed_block "
            "Create_hvector Create_indexed Create_indexed_block Create_resized Create_struct "
            "Create_subarray Create_vector Dup Get_contents Get_envelope Get_value_index Resized "
            "Set_name combiner contents decode envelope free"),
        FORTRAN: "Create_f90_complex Create_f90_integer Create_f90_real Match_size",
        PACKING: (
            "Pack Pack_external Pack_external_size Pack_size Unpack Unpack_external"),
        ATTRIBUTES: "Create_keyval Delete_attr Free_keyval Get_attr Set_attr",
        HANDLES: _NUMBERS,
    },
    "Status": {HANDLES: "f2py py2f"},
    "Request": {HANDLES: "f2py fromint"},
    "Prequest": {PARTITIONED: "Parrived Pready Pready_list Pready_range"},
    "Message": {HANDLES: f"{_NUMBERS} free"},
    "Op": {HANDLES: _NUMBERS},
    "Group": {SESSIONS: "Create_from_session_pset", HANDLES: f"{_NUMBERS} free"},
    "Info": {DYNAMIC: "Create_env", HANDLES: _NUMBERS},
    "MPI": {
        TOPOLOGIES: (
            "CART Cartcomm Compute_dims DIST_GRAPH Distgraphcomm GRAPH Graphcomm Topocomm "
            "UNWEIGHTED WEIGHTS_EMPTY"),
        DYNAMIC: (
            "Close_port ERR_NAME ERR_PORT ERR_SERVICE ERR_SPAWN Lookup_name MAX_PORT_NAME "
            "Open_port Publish_name Unpublish_name"),
        ATTRIBUTES: "KEYVAL_INVALID",
        PREDEFINED: "APPNUM IO LASTUSEDCODE UNIVERSE_SIZE WTIME_IS_GLOBAL",
        ERRHANDLERS: (
            "ERRHANDLER_NULL ERRORS_ABORT ERRORS_ARE_FATAL ERRORS_RETURN ERR_ERRHANDLER "
            "Errhandler"),
        ERROR_CLASSES: (
            "Add_error_class Add_error_code Add_error_string Remove_error_class "
            "Remove_error_code Remove_error_string"),
        INFO_ERRORS: "ERR_INFO_KEY ERR_INFO_NOKEY ERR_INFO_VALUE",
        FAULTS: "ERR_PROC_ABORTED ERR_PROC_FAILED_PENDING",
        WINDOWS: (
            "ERR_ASSERT ERR_BASE ERR_DISP ERR_LOCKTYPE ERR_RMA_ATTACH ERR_RMA_CONFLICT "
            "ERR_RMA_FLAVOR ERR_RMA_RANGE ERR_RMA_SHARED ERR_RMA_SYNC ERR_SIZE ERR_WIN "
            "LOCK_EXCLUSIVE LOCK_SHARED MODE_NOCHECK MODE_NOPRECEDE MODE_NOPUT MODE_NOSTORE "
            "MODE_NOSUCCEED WIN_BASE WIN_CREATE_FLAVOR WIN_DISP_UNIT WIN_FLAVOR "
            "WIN_FLAVOR_ALLOCATE WIN_FLAVOR_CREATE WIN_FLAVOR_DYNAMIC WIN_FLAVOR_SHARED WIN_MODEL "
            "WIN_NULL WIN_SEPARATE WIN_SIZE WIN_UNIFIED Win"),
        FILES: (
            "DISPLACEMENT_CURRENT DISP_CUR ERR_ACCESS ERR_AMODE ERR_BAD_FILE ERR_CONVERSION "
            "ERR_DUP_DATAREP ERR_FILE ERR_FILE_EXISTS ERR_FILE_IN_USE ERR_IO ERR_NOT_SAME "
            "ERR_NO_SPACE ERR_NO_SUCH_FILE ERR_QUOTA ERR_READ_ONLY ERR_UNSUPPORTED_DATAREP "
            "FILE_NULL File MAX_DATAREP_STRING MODE_APPEND MODE_CREATE MODE_DELETE_ON_CLOSE "
            "MODE_EXCL MODE_RDONLY MODE_RDWR MODE_SEQUENTIAL MODE_UNIQUE_OPEN MODE_WRONLY "
            "Register_datarep SEEK_CUR SEEK_END SEEK_SET"),
        SESSIONS: "ERR_SESSION MAX_PSET_NAME_LEN MAX_STRINGTAG_LEN SESSION_NULL Session",
        Feature("Iflush_buffer of the process", "use Flush_buffer, or that of a communicator"):
            "Iflush_buffer",
        PROFILING: "Pcontrol",
        DERIVED: (
            "COMBINER_CONTIGUOUS COMBINER_DARRAY COMBINER_DUP COMBINER_F90_COMPLEX "
            "COMBINER_F90_INTEGER COMBINER_F90_REAL COMBINER_HINDEXED COMBINER_HINDEXED_BLOCK "
            "COMBINER_HVECTOR COMBINER_INDEXED COMBINER_INDEXED_BLOCK COMBINER_NAMED "
            "COMBINER_RESIZED COMBINER_STRUCT COMBINER_SUBARRAY COMBINER_VALUE_INDEX "
            "COMBINER_VECTOR DISTRIBUTE_BLOCK DISTRIBUTE_CYCLIC DISTRIBUTE_DFLT_DARG "
            "DISTRIBUTE_NONE ERR_VALUE_TOO_LARGE ORDER_C ORDER_F ORDER_FORTRAN"),
        FORTRAN: "TYPECLASS_COMPLEX TYPECLASS_INTEGER TYPECLASS_LOGICAL TYPECLASS_REAL",
        WIDTHS: (
            "COMPLEX32 COMPLEX4 INTEGER16 LOGICAL1 LOGICAL16 LOGICAL2 LOGICAL4 LOGICAL8 REAL16"),
        ADDRESSES: "Aint_add Aint_diff Get_address",
        ABI: "ERR_ABI Get_abi_fortran_info Get_abi_info Get_abi_version",
        HARDWARE: "Get_hw_resource_info",
        HANDLES: (
            "F_ERROR F_SOURCE F_STATUS_SIZE F_TAG __pyx_capi__ _addressof _handleof _sizeof"),
        OWN: (
            "_comm_lock _comm_lock_table _commctx_inter _commctx_intra _datatype_create "
            "_datatype_decode _set_abort_status _typealign _typecode _typedict _typedict_c "
            "_typedict_f"),
    },
    # The package itself, whose counterpart is mpi4py.
    "pyrdv": {
        Feature("settings of the start", "set PYRDV_* variables before the import"): "rc Rc",
        Feature("pools of workers", "use concurrent.futures, or comm.send and comm.recv"):
            "futures",
        Feature("collection of helpers", "use send and recv, which move large arrays inside "
                "objects without copies"): "util",
        Feature("module to start programs", "use `pyrdv run`"): "run",
        Feature("copy of mpi4py's benchmarks", "use `pyrdv bench`"): "bench",
        Feature("module of types", "use the classes of pyrdv.MPI"): "typing",
        PROFILING: "profile",
        HANDLES: "get_config get_include",
    },
}


class UnsupportedAttribute(UnsupportedError, AttributeError):
    """A name that is not offered; also an AttributeError, so that ``hasattr`` says no."""

    def __init__(self, what, name=None):
        super().__init__(what)
        # Python offers names of `obj` that look alike, and these would mislead.
        self.name, self.obj = name, None


class UnsupportedImport(UnsupportedError, ImportError):
    """A name that is not offered; also an ImportError, which ``from ... import`` raises."""


def refusal(kind, name, feature):
    """The exception for `name` of `kind`, a part of `feature`."""
    text = f"{kind}.{name} is not offered: this version has no {feature.name}"
    return UnsupportedAttribute(f"{text}; {feature.instead}" if feature.instead else text, name)


def feature_of(kind, name):
    """The feature that `name` of `kind` belongs to, or None."""
    for feature, names in MISSING[kind].items():
        if name in names.split():
            return feature
    return None


def attribute(kind, module, name):
    """The exception for `name`, which a module has not; for its ``__getattr__``.

    Parameters
    ----------
    kind : str
        The key of `MISSING`.
    module : str
        Its full name.
    name : str
    """
    feature = feature_of(kind, name)
    if feature is not None:
        refused = refusal(kind, name, feature)
        return UnsupportedImport(str(refused)) if _imports(sys._getframe(2)) else refused
    return AttributeError(f"module {module!r} has no attribute {name!r}")


def _imports(frame):
    """Whether `frame` is at a ``from ... import``, which hides an AttributeError's text."""
    import opcode

    at = frame.f_lasti
    return at >= 0 and frame.f_code.co_code[at] == opcode.opmap["IMPORT_FROM"]
