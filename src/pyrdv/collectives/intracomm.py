"""Communicators with collective operations."""

from pyrdv.api import buffered
from pyrdv.api.communicator import Comm
from pyrdv.api.ops import SUM
from pyrdv.collectives import contexts, simple


class Intracomm(Comm):
    """A communicator whose members can act together.

    Every collective call must be made by all members, in the same order.
    """

    __slots__ = ()

    def Barrier(self):
        """Wait until all members have called it."""
        simple.barrier(self)

    def Bcast(self, buf, root=0):
        """Copy `buf` of `root` into `buf` of all members.

        Parameters
        ----------
        buf : buffer specification
            The same number of bytes on all members.
        root : int

        Raises
        ------
        RootError
        TruncationError
            The root sent more bytes than `buf` holds.
        """
        simple.bcast_buffer(self, buf, root)

    def Allreduce(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of all members element by element into `recvbuf`.

        Parameters
        ----------
        sendbuf : buffer specification or IN_PLACE
            `IN_PLACE` takes the values in `recvbuf`.
        recvbuf : buffer specification
            As many elements of the same type.
        op : Op

        Notes
        -----
        Values are combined in rank order on rank 0, so all members get the
        same bits.
        """
        simple.allreduce_buffer(self, sendbuf, recvbuf, op)

    def bcast(self, obj, root=0):
        """Return `obj` of `root` on all members; it is pickled once."""
        return simple.bcast_object(self, obj, root)

    def allreduce(self, sendobj, op=SUM):
        """Return ``op`` over `sendobj` of all members, in rank order."""
        return simple.allreduce_object(self, sendobj, op)

    def barrier(self):
        """Wait until all members have called it."""
        simple.barrier(self)

    def Dup(self, info=None):
        """A communicator of the same members with a message space of its own."""
        return self.sibling(contexts.agree(self))

    Clone = Dup

    def Free(self):
        """Give the communicator up.  All members call it."""
        if self.context_number > 1:
            simple.barrier(self)
            contexts.release(self.engine, self.context_number)
        self.mark_freed()

    def Attach_buffer(self, buf):
        """Bound buffered sends of this process by the size of `buf`."""
        buffered.attach(self.engine, buf)

    def Detach_buffer(self):
        """Wait for buffered sends; returns the attached buffer."""
        return buffered.detach(self.engine, lambda request: request.Wait())
