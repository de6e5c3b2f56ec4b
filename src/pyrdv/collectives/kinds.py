"""Kinds of collective calls.  Calls that may meet across ranks have one kind."""

NAMES = (
    "Barrier", "Bcast", "Gather", "Scatter", "Allgather", "Alltoall", "Reduce", "Allreduce",
    "Reduce_scatter", "Scan", "Exscan", "bcast", "gather", "scatter", "allgather", "alltoall",
    "reduce", "allreduce", "scan", "exscan", "making a communicator", "Split", "Free",
    "Ibarrier", "Ibcast", "Igather", "Iscatter", "Iallgather", "Ialltoall", "Ireduce", "Iallreduce",
    "Ireduce_scatter", "Iscan", "Iexscan",
)

(BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, REDUCE_SCATTER, SCAN,
 EXSCAN, BCAST_OBJECT, GATHER_OBJECTS, SCATTER_OBJECTS, ALLGATHER_OBJECTS, ALLTOALL_OBJECTS,
 REDUCE_OBJECTS, ALLREDUCE_OBJECTS, SCAN_OBJECTS, EXSCAN_OBJECTS, MAKE, SPLIT,
 FREE, IBARRIER, IBCAST, IGATHER, ISCATTER, IALLGATHER, IALLTOALL, IREDUCE,
 IALLREDUCE, IREDUCE_SCATTER, ISCAN, IEXSCAN) = range(len(NAMES))

#: Those that do not block: several may be under way.
UNDER_WAY = frozenset(range(IBARRIER, IEXSCAN + 1))
#: Those whose messages are objects.
OF_OBJECTS = frozenset((*range(BCAST_OBJECT, EXSCAN_OBJECTS + 1), SPLIT))
