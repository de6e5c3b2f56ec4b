"""Names that are not offered, or nowhere: type checkers refuse each, and go on behind it."""

from pyrdv import MPI
from pyrdv.MPI import Win  # E: attr-defined

comm: MPI.Intracomm = MPI.COMM_WORLD
print(Win)
MPI.File.Open(comm, "x")  # E: attr-defined
print(MPI.ERRORS_RETURN)  # E: attr-defined
MPI.Nonsense()  # E: attr-defined
comm.Create_cart([2])  # E: attr-defined
comm.Ialltoallw(1, 2)  # E: attr-defined
print(MPI.Comm.Spawn)  # E: attr-defined
MPI.Comm(comm).Split()  # E: attr-defined
MPI.Intercomm().Merge()  # E: attr-defined
MPI.INT.Create_vector(2, 1, 3)  # E: attr-defined
MPI.INT.Create_struct([1], [0], [MPI.INT])  # E: attr-defined
MPI.INT.Pack(b"", b"", 0, comm)  # E: attr-defined
MPI.REQUEST_NULL.f2py(1)  # E: attr-defined
print(MPI.Group.handle)  # E: attr-defined
MPI.Prequest().Pready(0)  # E: attr-defined
print(MPI.Exception(1).Nonsense)  # E: attr-defined
comm.Send(3.5, 0)  # E: arg-type


def behind() -> int:
    """No statement above ends what is checked here."""
    MPI.DOUBLE.Free()
    print(MPI.Cartcomm)  # E: attr-defined
    return "text"  # E: return-value


def compared(error: MPI.Exception) -> None:
    """Errors have an order with numbers only."""
    print(error < "text")  # E: operator
