"""Communicators do not see each other's messages (M07, M19)."""

import numpy as np

from .worlds import MPI, pattern


def test_same_envelope_two_contexts(world):
    """R6: the same source and tag in two communicators never mix."""
    with world(2, seed=1) as w:
        first, second = w.comms, w.dup()
        room1, room2 = np.zeros(5000, np.uint8), np.zeros(5000, np.uint8)
        r1 = first[1].Irecv(room1, source=0, tag=1)
        r2 = second[1].Irecv(room2, source=0, tag=1)
        s2 = second[0].Isend(pattern(5000, 2), dest=1, tag=1)
        w.run(s2, r2)
        assert not r1.Test()
        assert not room1.any()
        w.run(first[0].Isend(pattern(5000, 1), dest=1, tag=1), r1)
        assert np.array_equal(room1, pattern(5000, 1))
        assert np.array_equal(room2, pattern(5000, 2))


def test_wildcards_stay_in_their_context(world):
    """Case M07: a pending wildcard receive is not served from elsewhere."""
    with world(2, seed=2) as w:
        other = w.dup()
        room = np.zeros(8, np.uint8)
        r = w.comms[1].Irecv(room, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
        rooms = [np.zeros(100, np.uint8) for _ in range(20)]
        w.run(*(other[0].Isend(pattern(100, i), dest=1, tag=i) for i in range(20)))
        w.settle()
        assert not r.Test()
        assert not w.comms[1].Iprobe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
        w.run(*(other[1].Irecv(rooms[i], source=0, tag=i) for i in range(20)))
        w.run(w.comms[0].Isend(pattern(8), dest=1, tag=77), r)
        assert np.array_equal(room, pattern(8))


def test_phases(world):
    """Case M19: a fast rank is a phase ahead; any-source receives do not mix phases."""
    with world(3, seed=3) as w:
        phases = [w.dup() for _ in range(2)]
        sends = [comms[rank].Isend(pattern(64, phase), dest=0, tag=1)
                 for phase, comms in enumerate(phases) for rank in (2, 1)]
        for phase, comms in enumerate(phases):
            for _ in range(2):
                room = np.zeros(64, np.uint8)
                w.run(comms[0].Irecv(room, source=MPI.ANY_SOURCE, tag=1))
                assert np.array_equal(room, pattern(64, phase))
        w.run(*sends)
