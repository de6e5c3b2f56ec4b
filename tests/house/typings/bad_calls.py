"""Calls with wrong arguments."""

from pyrdv import MPI

MPI.COMM_WORLD.Send(b"", dest="zero")  # E: arg-type
MPI.COMM_WORLD.Recv(bytearray(1), status=MPI.Status)  # E: arg-type
MPI.COMM_WORLD.Isend(b"", 0).Wiat()  # E: attr-defined
n: str = MPI.COMM_WORLD.Get_size()  # E: assignment
MPI.Get_error_string("text")  # E: arg-type
MPI.Info.Create({"key": 3})  # E: arg-type
