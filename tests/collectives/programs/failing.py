"""A failure on one rank, in every collective: all ranks raise, and the next call is right.

Every case runs on any number of ranks.
"""

# ruff: noqa: B023 (every call is made at once)

import gc
import weakref

import numpy as np

from pyrdv import MPI, errors
from tests.support.cases import raises, run

WRONG = 99




class Unpicklable:
    """Cannot be sent."""

    def __reduce__(self):
        raise ValueError("planted: does not pickle")


def _refuse():
    raise ValueError("planted: does not unpickle")


class Poison:
    """Can be sent, and not be received."""

    def __reduce__(self):
        return _refuse, ()


def whole(comm, count=2):
    return np.zeros(count * comm.size)


#: Buffer calls; `bad` is this rank's argument, None on ranks that are in order.
BUFFERS = {
    "Bcast": lambda c, bad: c.Bcast(np.zeros(2) if bad is None else bad, 0),
    "Gather": lambda c, bad: c.Gather(np.zeros(2) if bad is None else bad, whole(c), 0),
    "Gatherv": lambda c, bad: c.Gatherv(np.zeros(2) if bad is None else bad,
                                        [whole(c), [2] * c.size], 0),
    "Scatter": lambda c, bad: c.Scatter(whole(c), np.zeros(2) if bad is None else bad, 0),
    "Scatterv": lambda c, bad: c.Scatterv([whole(c), [2] * c.size],
                                          np.zeros(2) if bad is None else bad, 0),
    "Allgather": lambda c, bad: c.Allgather(np.zeros(2) if bad is None else bad, whole(c)),
    "Allgatherv": lambda c, bad: c.Allgatherv(np.zeros(2) if bad is None else bad,
                                              [whole(c), [2] * c.size]),
    "Alltoall": lambda c, bad: c.Alltoall(whole(c) if bad is None else bad, whole(c)),
    "Alltoallv": lambda c, bad: c.Alltoallv([whole(c), [2] * c.size] if bad is None else bad,
                                            [whole(c), [2] * c.size]),
    "Reduce": lambda c, bad: c.Reduce(np.zeros(2) if bad is None else bad, np.zeros(2), root=0),
    "Allreduce": lambda c, bad: c.Allreduce(np.zeros(2) if bad is None else bad, np.zeros(2)),
    "Reduce_scatter_block": lambda c, bad: c.Reduce_scatter_block(
        whole(c) if bad is None else bad, np.zeros(2)),
    "Reduce_scatter": lambda c, bad: c.Reduce_scatter(whole(c) if bad is None else bad,
                                                      np.zeros(2)),
    "Scan": lambda c, bad: c.Scan(np.zeros(2) if bad is None else bad, np.zeros(2)),
    "Exscan": lambda c, bad: c.Exscan(np.zeros(2) if bad is None else bad, np.zeros(2)),
}

#: Object calls; `make(i)` gives this rank's i-th object.
OBJECTS = {
    "bcast": lambda c, make: c.bcast(make(0), 0),
    "gather": lambda c, make: c.gather(make(0), 0),
    "scatter": lambda c, make: c.scatter([make(i) for i in range(c.size)], 0),
    "allgather": lambda c, make: c.allgather(make(0)),
    "alltoall": lambda c, make: c.alltoall([make(i) for i in range(c.size)]),
    "reduce": lambda c, make: c.reduce([make(0)], root=0),
    "allreduce": lambda c, make: c.allreduce([make(0)]),
    "scan": lambda c, make: c.scan([make(0)]),
    "exscan": lambda c, make: c.exscan([make(0)]),
}

#: Calls in which a rank that has its result returns, without waiting for the others.
ONE_WAY = {"Bcast", "bcast"}


def outcome(function):
    """The error that a call raises; None for a result."""
    try:
        function()
    except MPI.Exception as error:
        return error
    except (ValueError, TypeError) as error:
        return error
    return None


def check(comm, what, bad, error, kind=None, everywhere=True):
    """All ranks raise, the bad one its own error; and the next calls are right."""
    if comm.rank == bad or everywhere:
        assert error is not None, f"{what}: no error on rank {comm.rank}, bad is {bad}"
    if kind is not None and error is not None:
        assert isinstance(error, kind), f"{what}: {type(error)} {error}"
    if comm.rank != bad and error is not None:
        assert isinstance(error, errors.CollectiveError), f"{what}: {type(error)} {error}"
        assert error.rank == bad and str(bad) in str(error), f"{what}: {error}"
    assert comm.allreduce(comm.rank) == comm.size * (comm.size - 1) // 2, what
    total = np.zeros(1)
    comm.Allreduce(np.ones(1), total)
    assert total[0] == comm.size, what


def tells_all(what, bad):
    """In a one-way call only those behind the rank that failed are told for sure."""
    return what not in ONE_WAY or bad == 0


def case_wrong_buffer(comm):
    """A read-only, non-contiguous or foreign argument on one rank."""
    for what, call in BUFFERS.items():
        for bad in range(comm.size):
            argument = object() if comm.rank == bad else None
            check(comm, what, bad, outcome(lambda: call(comm, argument)),
                  errors.DatatypeError, tells_all(what, bad))


def case_wrong_root(comm):
    for name in ("Bcast", "Gather", "Scatter", "Reduce", "bcast", "gather", "scatter", "reduce"):
        for bad in range(comm.size):
            root = WRONG if comm.rank == bad else 0
            calls = {"Bcast": lambda: comm.Bcast(np.zeros(2), root),
                     "Gather": lambda: comm.Gather(np.zeros(2), whole(comm), root),
                     "Scatter": lambda: comm.Scatter(whole(comm), np.zeros(2), root),
                     "Reduce": lambda: comm.Reduce(np.zeros(2), np.zeros(2), root=root),
                     "bcast": lambda: comm.bcast(0, root),
                     "gather": lambda: comm.gather(0, root),
                     "scatter": lambda: comm.scatter([0] * comm.size, root),
                     "reduce": lambda: comm.reduce(0, root=root)}
            check(comm, name, bad, outcome(calls[name]), errors.RootError, tells_all(name, bad))


def case_foreign_operation_or_root(comm):
    for name in ("Reduce", "Allreduce", "Reduce_scatter_block", "Scan", "Exscan",
                 "reduce", "allreduce", "scan", "exscan"):
        for bad in range(comm.size):
            for foreign in (None, 5, "sum"):
                op = foreign if comm.rank == bad else MPI.SUM
                send = whole(comm) if name == "Reduce_scatter_block" else np.zeros(2)
                args = (send, np.zeros(2), op) if name[0].isupper() else (send, op)
                check(comm, name, bad, outcome(lambda: getattr(comm, name)(*args)), TypeError)
    for bad in range(comm.size):
        for foreign in (None, 0.0, "0"):
            root = foreign if comm.rank == bad else 0
            check(comm, "gather", bad, outcome(lambda: comm.gather(0, root)), TypeError)
            group = foreign if comm.rank == bad else comm.Get_group()
            check(comm, "Create", bad, outcome(lambda: comm.Create(group)), TypeError)


def case_wrong_operation(comm):
    for name in ("Reduce", "Allreduce", "Reduce_scatter_block", "Scan", "Exscan"):
        for bad in range(comm.size):
            op = MPI.BAND if comm.rank == bad else MPI.SUM
            send = whole(comm) if name == "Reduce_scatter_block" else np.zeros(2)
            check(comm, name, bad,
                  outcome(lambda: getattr(comm, name)(send, np.zeros(2), op)), errors.OpError)


def case_uneven_block(comm):
    """One rank sends or expects more or less than the others: an error on all of them."""
    for count in (1, 3, 100_000):
        for bad in range(comm.size):
            mine = np.zeros(count if comm.rank == bad else 2)
            calls = {
                "Gather": lambda: comm.Gather(mine, whole(comm), 0),
                "Allgather": lambda: comm.Allgather(mine, whole(comm)),
                "Scatter": lambda: comm.Scatter(whole(comm), mine, 0),
                "Alltoall": lambda: comm.Alltoall(whole(comm), whole(comm, len(mine))),
                "Reduce": lambda: comm.Reduce(mine, np.zeros(2), root=0),
                "Allreduce": lambda: comm.Allreduce(mine, np.zeros(len(mine))),
                "Scan": lambda: comm.Scan(mine, np.zeros(len(mine))),
                "Reduce_scatter_block": lambda: comm.Reduce_scatter_block(
                    whole(comm, len(mine)), np.zeros(len(mine)))}
            for what, call in calls.items():
                if comm.size == 1 and what not in ("Gather", "Allgather", "Scatter", "Alltoall"):
                    continue        # nobody to differ from
                error = outcome(call)
                assert isinstance(error, (errors.CountError, errors.TruncationError)), \
                    f"{what} of {count}, bad {bad}: {error!r}"
                assert comm.allreduce(1) == comm.size


def case_bcast_of_unequal_lengths(comm):
    for count in (1, 3, 100_000):
        room = np.zeros(2 if comm.rank == 0 else count)
        error = outcome(lambda: comm.Bcast(room, 0))
        assert comm.rank == 0 or isinstance(error, MPI.Exception)
        assert comm.allreduce(1) == comm.size


def case_object_that_does_not_pickle(comm):
    for what, call in OBJECTS.items():
        for bad in range(comm.size):
            if what in ("bcast", "scatter") and bad:
                continue
            error = outcome(lambda: call(comm, lambda i: Unpicklable() if comm.rank == bad else i))
            check(comm, what, bad, error, ValueError)


def case_object_that_does_not_unpickle(comm):
    for what, call in OBJECTS.items():
        for bad in range(comm.size):
            if what in ("bcast", "scatter") and bad:
                continue
            error = outcome(lambda: call(comm, lambda i: Poison() if comm.rank == bad else i))
            assert isinstance(error, ValueError) and "does not unpickle" in str(error), \
                f"{what}, bad {bad}: {error!r}"
            assert comm.allreduce(1) == comm.size


def case_operation_that_raises(comm):
    def op(x, y):
        raise ZeroDivisionError("planted")

    if comm.size == 1:
        return
    for name in ("reduce", "allreduce", "scan", "exscan"):
        with raises(ZeroDivisionError, "planted"):
            getattr(comm, name)(comm.rank, op)
        assert comm.allreduce(1) == comm.size


def case_buffer_operation_that_raises(comm):
    def function(x, y, datatype):
        raise ZeroDivisionError("planted")

    if comm.size == 1:
        return
    op = MPI.Op.Create(function)
    for name in ("Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block"):
        send = whole(comm) if name == "Reduce_scatter_block" else np.zeros(2)
        if name == "Exscan" and comm.size == 2:
            continue            # there is nothing to combine
        with raises(ZeroDivisionError, "planted"):
            getattr(comm, name)(send, np.zeros(2), op)
        assert comm.allreduce(1) == comm.size


def case_too_few_objects(comm):
    for name in ("scatter", "alltoall"):
        for bad in range(comm.size if name == "alltoall" else 1):
            items = [0] * (comm.size + (comm.rank == bad))
            check(comm, name, bad, outcome(lambda: getattr(comm, name)(items)),
                  errors.ArgumentError)


def case_communicators(comm):
    """A wrong argument of one rank where communicators are made."""
    strange = MPI.COMM_WORLD.Get_group()
    part = comm.Split(0)
    for bad in range(comm.size):
        mine = comm.rank == bad
        check(comm, "Split", bad, outcome(lambda: comm.Split(-7 if mine else 0)),
              errors.ArgumentError)
        check(comm, "Split_type", bad,
              outcome(lambda: comm.Split_type(99 if mine else MPI.COMM_TYPE_SHARED)),
              errors.ArgumentError)
    alone = comm.Split(comm.rank)
    if comm.size > 1:
        with raises(MPI.Exception, "no members"):
            alone.Create(strange)
    for each in (part, alone):
        each.Free()
    # Numbers that were tried are free again.
    again = comm.Dup()
    again.Free()


def case_failure_of_large_blocks(comm):
    """Beyond what is sent eagerly: nobody waits for a block that nobody takes."""
    size = 100_000
    for bad in range(comm.size):
        for what in ("Allgather", "Alltoall", "Gather", "Allreduce"):
            out = object() if comm.rank == bad else np.full(
                size * (comm.size if what == "Alltoall" else 1), 1.0)
            into = np.zeros(size * (1 if what == "Allreduce" else comm.size))
            check(comm, what, bad, outcome(lambda: getattr(comm, what)(out, into)),
                  errors.DatatypeError)
            # Nothing lands in it after the call.
            into[:] = 7
            comm.Barrier()
            assert (into == 7).all()
        big = object() if comm.rank == bad else np.ones(size)
        check(comm, "allgather", bad,
              outcome(lambda: comm.allgather(Unpicklable() if comm.rank == bad else big)),
              ValueError)


def case_many_failures_leave_nothing(comm):
    for turn in range(50):
        bad = turn % comm.size
        outcome(lambda: comm.alltoall([Unpicklable() if comm.rank == bad else 0] * comm.size))
        outcome(lambda: comm.Allgather(object() if comm.rank == bad else np.zeros(1),
                                       np.zeros(comm.size)))
    assert comm.allgather(comm.rank) == list(range(comm.size))


def case_buffers_are_let_go(comm):
    """A failed call keeps no array of the user until the garbage collector comes by."""
    def failed(bad):
        arrays = [np.ones(2 * comm.size) for _way in range(2)]
        out = object() if comm.rank == bad else arrays[0]
        outcome(lambda: comm.Alltoall(out, arrays[1]))
        return [weakref.ref(array) for array in arrays]

    gc.disable()
    try:
        for bad in range(comm.size):
            assert [array() for array in failed(bad)] == [None, None]
    finally:
        gc.enable()


def case_late_rank_is_told(comm):
    """Who comes after all others have failed and gone on is told, too."""
    if comm.size == 1:
        return
    last = comm.size - 1
    if comm.rank != last:
        with raises(ValueError):
            comm.allgather(Unpicklable() if comm.rank == 0 else 1)
        if comm.rank == 0:
            comm.send("failed", last, 1)
    else:
        comm.recv(source=0, tag=1)
        with raises(errors.CollectiveError, "rank 0"):
            comm.allgather(1)
    assert comm.allreduce(1) == comm.size


run(globals())
