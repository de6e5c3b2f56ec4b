"""Started with torchrun's variables: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT."""

import os
import socket
import sys

import pytest

from pyrdv.errors import ConfigError
from pyrdv.launch import env
from tests.support.jobs import Jobs


def variables(**changes):
    made = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4000"}
    made.update(changes)
    return {name: value for name, value in made.items() if value is not None}


def free_port():
    """A port whose successor is free as well."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            try:
                second.bind(("127.0.0.1", first.getsockname()[1] + 1))
            except OSError:
                continue
            return first.getsockname()[1]


@pytest.fixture
def together(tmp_path):
    """Starts all ranks, the last one first; returns their outcomes in the order of ranks."""
    jobs = Jobs(tmp_path)

    def run(source, size, **more):
        program, port = jobs.write(source), str(free_port())
        started = [jobs.execute([sys.executable, program], env=variables(
            RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=port, **more))
            for rank in reversed(range(size))]
        outcomes = [jobs.finish(process) for process in reversed(started)]
        jobs.check_clean()
        return outcomes

    yield run
    jobs.close()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_hello(together, size):
    outcomes = together("""
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        print(world.rank, world.size, world.allreduce(world.rank))
    """, size)
    assert [outcome.ok().out for outcome in outcomes] == [
        f"{rank} {size} {sum(range(size))}\n" for rank in range(size)]


def test_a_secret_may_be_given(together):
    outcomes = together("""
        import os
        from pyrdv import MPI
        assert "PYRDV_SECRET" not in os.environ
        MPI.COMM_WORLD.Barrier()
    """, 2, PYRDV_SECRET="ab" * 32)
    assert [outcome.ok().out for outcome in outcomes] == ["", ""]


def test_rank_0_stays_until_all_have_left(together):
    outcomes = together("""
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        if world.rank == 2:
            world.send("late", 1)
        if world.rank == 1:
            print(world.recv(source=2))
        print("done")
    """, 3)
    assert [outcome.ok().out for outcome in outcomes] == ["done\n", "late\ndone\n", "done\n"]


def test_abort_ends_all(together):
    outcomes = together("""
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        if world.rank == 1:
            world.Abort(7)
        world.recv(source=1)
    """, 3)
    assert outcomes[1].status == 7
    assert "rank 1 called Abort(7)" in outcomes[0].err
    assert outcomes[0].status and outcomes[2].status


def test_death_is_told(together):
    outcomes = together("""
        import os
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        if world.rank == 1:
            os._exit(3)
        try:
            world.recv(source=1)
        except MPI.Exception as error:
            print(type(error).__name__)
    """, 3)
    assert [outcome.out for outcome in outcomes] == ["PeerLostError\n", "", "PeerLostError\n"]


def test_children_are_single(together):
    outcomes = together("""
        import subprocess, sys
        from pyrdv import MPI
        size = "from pyrdv import MPI; print(MPI.COMM_WORLD.size)"
        done = subprocess.run([sys.executable, "-c", size], capture_output=True, text=True)
        print(MPI.COMM_WORLD.size, done.stdout.strip(), done.stderr)
    """, 2)
    assert [outcome.ok().out for outcome in outcomes] == ["2 1 \n", "2 1 \n"]


def test_rank_0_that_never_comes_is_named(tmp_path):
    jobs = Jobs(tmp_path)
    process = jobs.execute(
        [sys.executable, jobs.write("from pyrdv import MPI")],
        env=variables(MASTER_PORT=str(free_port()), PYRDV_TIMEOUT_START="0.5"))
    outcome = jobs.finish(process)
    jobs.close()
    assert outcome.status == 1
    assert "RANK=1" in outcome.err and "unset RANK" in outcome.err


def test_order_of_detection():
    """PYRDV_RANK comes first, then PMI, then torchrun's variables."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        manager = {"PMI_FD": str(theirs.fileno()), "PMI_RANK": "2", "PMI_SIZE": "3"}
        own = {"PYRDV_RANK": "0", "PYRDV_SIZE": "9", "PYRDV_ADDRESS": "127.0.0.1:1",
               "PYRDV_JOB": "j", "PYRDV_SECRET": "ab" * 32, "PYRDV_PID": str(os.getpid())}
        found = [env.detect(variables(**more)) for more in ({}, manager, {**manager, **own})]
    assert [(launch.how, launch.rank, launch.size) for launch in found] == [
        ("torchrun", 1, 4), ("PMI", 2, 3), ("pyrdv run", 0, 9)]
    assert found[0].address == "127.0.0.1:4001"
    assert len(env.ORDER) == 3


def test_what_is_no_job_of_several():
    assert env.detect(variables(WORLD_SIZE="1", RANK="0")).how == "alone"
    assert env.detect(variables(PYRDV_PID="1")).how == "child of a rank"


def test_jobs_are_kept_apart():
    """Without a secret of the user's, other variables make another one."""
    secrets = {env.detect(variables(**more)).secret for more in (
        {}, {"MASTER_PORT": "4002"}, {"WORLD_SIZE": "5"}, {"TORCHELASTIC_RUN_ID": "x"},
        {"TORCHELASTIC_RESTART_COUNT": "1"}, {"PYRDV_SECRET": "ab" * 32})}
    assert len(secrets) == 6


@pytest.mark.parametrize("name, value", [
    ("PYRDV_SECRET", "short"), ("MASTER_ADDR", "no.such.host.invalid")])
def test_broken_variables_are_named(name, value):
    with pytest.raises(ConfigError, match=name):
        env.detect(variables(**{name: value}))
