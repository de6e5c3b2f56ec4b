"""Wrong arguments are errors at once, by name, and nothing is sent (M06)."""

import numpy as np
import pytest

from pyrdv import errors

from .worlds import MPI, pattern


def test_tag_bounds(world):
    """Case M06: the bound is 2^31-1; beyond it the error names tag and bound."""
    with world(2) as w:
        bound = w.comms[0].Get_attr(MPI.TAG_UB)
        assert bound == 2**31 - 1
        for tag in (0, 32767, bound):
            room = np.zeros(4, np.uint8)
            w.run(w.comms[0].Isend(pattern(4), dest=1, tag=tag),
                  w.comms[1].Irecv(room, source=0, tag=tag))
            assert np.array_equal(room, pattern(4))
        for tag in (bound + 1, -5):
            with pytest.raises(errors.TagError, match=rf"{tag}.*{bound}"):
                w.comms[0].Isend(pattern(4), dest=1, tag=tag)
        w.settle()
        assert not w.comms[1].Iprobe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)


@pytest.mark.parametrize("rank", [2, -7, 1000])
def test_ranks_out_of_range(world, rank):
    """The error names the rank and the range."""
    with world(2) as w:
        with pytest.raises(errors.RankError, match=str(rank)):
            w.comms[0].Isend(pattern(4), dest=rank)
        with pytest.raises(errors.RankError, match=str(rank)):
            w.comms[0].Irecv(np.zeros(4, np.uint8), source=rank)


def test_read_only_receive_buffer(world):
    """R5: nothing is received into memory that may not be written."""
    with world(2) as w:
        with pytest.raises(MPI.Exception):
            w.comms[0].Irecv(bytes(10), source=1)
        room = np.zeros(10, np.uint8)
        room.flags.writeable = False
        with pytest.raises(MPI.Exception):
            w.comms[0].Irecv(room, source=1)
