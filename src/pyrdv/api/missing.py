"""What MPI has and this version has not: named, instead of an AttributeError without a reason."""

from pyrdv.errors import UnsupportedError

#: Per kind of object the features that are missing, and the names by which mpi4py has them.
MISSING = {
    "Comm": {
        "topologies": (
            "Create_cart Create_graph Create_dist_graph Create_dist_graph_adjacent Cart_map "
            "Graph_map"),
        "intercommunicators and dynamic processes": (
            "Create_intercomm Spawn Spawn_multiple Accept Connect Disconnect Join"),
        "attributes of communicators": "Set_attr Delete_attr Create_keyval Free_keyval",
        "error handlers": (
            "Set_errhandler Get_errhandler Call_errhandler Create_errhandler"),
        "partitioned messages": "Psend_init Precv_init",
        "fault tolerance": (
            "Agree Iagree Shrink Ishrink Revoke Is_revoked Get_failed Ack_failed"),
        "non-blocking collectives": (
            "Ibarrier Ibcast Igather Igatherv Iscatter Iscatterv Iallgather Iallgatherv Ialltoall "
            "Ialltoallv Ialltoallw Ireduce Iallreduce Ireduce_scatter Ireduce_scatter_block Iscan "
            "Iexscan"),
        "persistent collectives": (
            "Barrier_init Bcast_init Gather_init Gatherv_init Scatter_init Scatterv_init "
            "Allgather_init Allgatherv_init Alltoall_init Alltoallv_init Alltoallw_init "
            "Reduce_init Allreduce_init Reduce_scatter_init Reduce_scatter_block_init Scan_init "
            "Exscan_init"),
        "Alltoallw": "Alltoallw",
        "handles of MPI's C and Fortran interfaces": "handle toint py2f",
    },
    "MPI": {
        "topologies": "Topocomm Cartcomm Graphcomm Distgraphcomm Compute_dims CART GRAPH",
        "dynamic processes": (
            "Open_port Close_port Publish_name Unpublish_name Lookup_name"),
        "attributes": (
            "KEYVAL_INVALID APPNUM UNIVERSE_SIZE HOST IO WTIME_IS_GLOBAL LASTUSEDCODE"),
        "error handlers": (
            "Errhandler ERRHANDLER_NULL ERRORS_RETURN ERRORS_ABORT ERRORS_ARE_FATAL "
            "Add_error_class Add_error_code Add_error_string Remove_error_class "
            "Remove_error_code Remove_error_string"),
        "one-sided communication": (
            "Win WIN_NULL LOCK_SHARED LOCK_EXCLUSIVE"),
        "files": (
            "File FILE_NULL MODE_RDONLY MODE_WRONLY MODE_RDWR MODE_CREATE MODE_APPEND "
            "Register_datarep"),
        "sessions": "Session SESSION_NULL",
        "profiling control": "Pcontrol",
    },
}


class UnsupportedAttribute(UnsupportedError, AttributeError):
    """Also an AttributeError, so that ``hasattr`` says no."""


def _refusal(kind, name, feature):
    return UnsupportedAttribute(f"{kind}.{name} is not offered: this version has no {feature}")


def attribute(kind, name):
    """The exception for attribute `name`, which `kind` has not."""
    for feature, names in MISSING[kind].items():
        if name in names.split():
            return _refusal(kind, name, feature)
    return AttributeError(f"{kind!r} has no attribute {name!r}")


class Missing:
    """Stands in a class for a method that is not offered, and says so when it is asked for.

    A ``__getattr__`` would do the same, but the interpreter then looks up every other attribute
    the slow way: 70 ns more for each call of a method.
    """

    def __init__(self, kind, name, feature):
        self._words = kind, name, feature

    def __get__(self, instance, owner):
        if instance is None:
            return self
        raise _refusal(*self._words)


#: What communicators lack, as a base class of theirs.
UnofferedOfComm = type("UnofferedOfComm", (), {
    "__doc__": "What communicators of MPI have and those of this version have not.",
    "__slots__": (),
    "__module__": __name__,
    **{name: Missing("Comm", name, feature)
       for feature, names in MISSING["Comm"].items() for name in names.split()},
})
