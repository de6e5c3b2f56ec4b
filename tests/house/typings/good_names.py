"""Names that work, as programs use them: type checkers accept all of it."""

from typing import assert_type

import pyrdv
from pyrdv import MPI
from pyrdv.errors import Error, PeerLostError, UnsupportedError


def numbers(error: MPI.Exception) -> bool:
    """An exception stands for its error class, as in mpi4py."""
    assert_type(int(error), int)
    known = {MPI.ERR_TRUNCATE: "truncated"}
    return (error == MPI.ERR_TRUNCATE and error != 3 and error < MPI.ERR_LASTCODE
            and MPI.Get_error_class(error) in known and error.Get_error_code() >= MPI.SUCCESS)


def handlers() -> None:
    """Errors are classes of both kinds."""
    try:
        MPI.COMM_WORLD.Barrier()
    except PeerLostError as error:
        print(error.peer, numbers(error))
    except UnsupportedError as error:
        print(error.error_string)
    except Error as error:
        print(MPI.Get_error_string(error.error_code))


def types(comm: MPI.Comm) -> tuple[int, int]:
    """Plain communicators, constants and types."""
    room: MPI.memory = MPI.Alloc_mem(8)
    where: MPI.BottomType | MPI.InPlaceType = MPI.IN_PLACE
    assert_type(comm.is_topo, bool)
    assert_type(MPI.DOUBLE.true_extent, int)
    print(room.nbytes, where, comm.Get_rank(), pyrdv.empty(3).sum())
    return MPI.VERSION, MPI.SUBVERSION


class Own(MPI.Intracomm):
    """Communicators can be derived from, and what is missing can be added."""

    def Create_cart(self, dims: list[int]) -> list[int]:
        """Not what MPI means."""
        return dims


assert_type(Own(MPI.COMM_WORLD).Create_cart([2]), list[int])
