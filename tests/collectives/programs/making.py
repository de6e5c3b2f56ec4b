"""Communicators made from others, and their numbers.  Every case runs on any number of ranks."""

import pickle
import threading

import numpy as np

from pyrdv import MPI
from tests.support.cases import raises, run


def talk(comm):
    """A message goes around; everybody gets what its left neighbour sent."""
    got = comm.sendrecv(comm.rank, (comm.rank + 1) % comm.size, 3,
                        source=(comm.rank - 1) % comm.size, recvtag=3)
    assert got == (comm.rank - 1) % comm.size


def case_split_orders_by_key(comm):
    made = comm.Split(0, -comm.rank)
    assert (made.rank, made.size) == (comm.size - 1 - comm.rank, comm.size)
    assert comm.Compare(made) == (MPI.CONGRUENT if comm.size == 1 else MPI.SIMILAR)
    talk(made)
    made.Free()


def case_split_equal_keys_keep_order(comm):
    made = comm.Split(7, 5)
    assert made.rank == comm.rank and comm.Compare(made) == MPI.CONGRUENT
    made.Free()


def case_split_undefined_stays_out(comm):
    made = comm.Split(0 if comm.rank else MPI.UNDEFINED)
    if comm.rank:
        assert made.rank == comm.rank - 1
        talk(made)
        made.Free()
    else:
        assert made == MPI.COMM_NULL and not made
    with raises(MPI.Exception, "-5", "UNDEFINED"):
        comm.Split(-5)


def case_disjoint_parts_talk_at_once(comm):
    made = comm.Split(comm.rank % 2)
    assert made.allreduce(comm.rank) == sum(range(comm.rank % 2, comm.size, 2))
    # The number is one on all, and nobody minds: no process is in two parts.
    assert comm.allreduce(made.context_number, MPI.MAX) == made.context_number
    talk(made)
    made.Free()


def case_numbers_are_used_again(comm):
    first = comm.Dup()
    number = first.context_number
    first.Free()
    for _ in range(20):
        again = comm.Dup()
        assert again.context_number == number
        again.Free()


def case_number_waits_for_a_posted_receive(comm):
    old = comm.Dup()
    number = old.context_number
    room = np.zeros(1)
    left = old.Irecv(room, tag=5) if old.rank == 0 else None
    old.Free()
    new = comm.Dup()
    assert new.context_number != number
    if new.rank == new.size - 1:
        new.Isend(np.ones(1), 0, 5).Free()
    if left is not None:
        new.Recv(np.zeros(1), MPI.ANY_SOURCE, 5)
        assert not left.Test() and room[0] == 0
        left.Cancel()
        left.Wait()
    new.Free()
    comm.Barrier()
    newest = comm.Dup()
    assert newest.context_number == number
    newest.Free()


def case_group_members_only(comm):
    group = comm.Get_group().Incl(range((comm.size + 1) // 2))
    made = comm.Create_group(group, 9)
    assert (made == MPI.COMM_NULL) == (comm.rank >= group.size)
    if made:
        talk(made)
        made.Free()
    made = comm.Create(group)
    assert (made == MPI.COMM_NULL) == (comm.rank >= group.size)
    if made:
        talk(made)
        made.Free()


def case_groups_at_once_under_two_tags(comm):
    """Two threads make communicators of overlapping groups at the same time."""
    whole = comm.Get_group()
    some = whole.Incl(range((comm.size + 1) // 2))
    made = {}

    def make(group, tag):
        for _ in range(5):
            made[tag] = comm.Create_group(group, tag)
            if tag == 1 and made[tag]:
                made[tag].Free()

    threads = [threading.Thread(target=make, args=pair) for pair in ((whole, 1), (some, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if made[2]:
        talk(made[2])
        made[2].Free()


def case_from_group_alone(comm):
    made = MPI.Intracomm.Create_from_group(comm.Get_group(), "a job", MPI.INFO_NULL)
    assert comm.Compare(made) == MPI.CONGRUENT
    talk(made)
    made.Free()


def case_strange_group_is_refused(comm):
    mine = comm.Split(comm.rank)
    if comm.size > 1:
        with raises(MPI.Exception, "no members"):
            mine.Create(comm.Get_group())
    mine.Free()


def case_handles_are_freed_together(comm):
    made = comm.Dup()
    other = MPI.Intracomm(made)
    assert other == made and other is not made
    talk(other)
    made.Free()
    assert other == made == MPI.COMM_NULL
    with raises(MPI.Exception, "was freed"):
        other.Send(b"", 0)


def case_null_refuses(comm):
    for call in (lambda: MPI.COMM_NULL.rank, lambda: MPI.COMM_NULL.Get_size(),
                 lambda: MPI.COMM_NULL.send(1, 0), lambda: MPI.Intracomm().Dup(),
                 lambda: MPI.COMM_NULL.Dup(),
                 lambda: MPI.Intracomm().Barrier(), lambda: MPI.COMM_NULL.Get_group()):
        with raises(MPI.Exception, "COMM_NULL"):
            call()


def case_split_type_is_who_shares_memory(comm):
    made = comm.Split_type(MPI.COMM_TYPE_SHARED)
    near = [rank for rank, way in MPI.fabrics().items() if way in ("self", "shm")]
    assert made.size == len(near)
    made.Free()
    with raises(MPI.Exception, "COMM_TYPE_"):
        comm.Split_type(99)


def case_hints_follow_a_duplicate(comm):
    info = MPI.Info.Create({"a": "b"})
    comm.Set_info(info)
    made = comm.Dup()
    assert made.Get_info().items() == [("a", "b")]
    made.Free()
    made, request = comm.Idup(MPI.Info.Create())
    request.Wait()
    assert len(made.info) == 0
    made.Free()
    with raises(MPI.Exception, "'x'"):
        info.Delete("x")
    info.Free()
    assert info == MPI.INFO_NULL


def case_only_constants_are_pickled(comm):
    for value in (MPI.COMM_WORLD, MPI.COMM_SELF, MPI.COMM_NULL, MPI.GROUP_EMPTY, MPI.REQUEST_NULL,
                  MPI.MESSAGE_NO_PROC):
        assert pickle.loads(pickle.dumps(value)) is value
    for value in (comm, comm.Get_group(), MPI.COMM_SELF.Isend(b"", MPI.PROC_NULL)):
        with raises(ValueError, "pickled"):
            pickle.dumps(value)


def case_what_is_missing_is_named(comm):
    for call in (lambda: comm.Create_cart([1]), lambda: comm.Alltoallw(1, 2),
                 lambda: MPI.Win.Create(None), lambda: MPI.File.Open("x")):
        with raises(NotImplementedError, "not offered"):
            call()
    assert not hasattr(MPI, "Win") and not hasattr(comm, "Spawn")
    with raises(AttributeError, "nonsense"):
        comm.nonsense()


run(globals())
