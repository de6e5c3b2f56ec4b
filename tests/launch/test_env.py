"""pyrdv.launch.env: who am I."""

import os
import subprocess
import sys

import pytest

from pyrdv.errors import ConfigError
from pyrdv.launch import env


def ranks_environment(**changes):
    made = {"PYRDV_RANK": "1", "PYRDV_SIZE": "4", "PYRDV_ADDRESS": "127.0.0.1:4000",
            "PYRDV_JOB": "abc", "PYRDV_SECRET": "ab" * 32, "PYRDV_PID": str(os.getpid())}
    made.update(changes)
    return {name: value for name, value in made.items() if value is not None}


def test_alone():
    launch = env.detect({})
    assert (launch.rank, launch.size, launch.address, launch.launched, launch.how) == (
        0, 1, None, False, "alone")


def test_rank():
    launch = env.detect(ranks_environment())
    assert (launch.rank, launch.size, launch.address, launch.job, launch.secret) == (
        1, 4, "127.0.0.1:4000", "abc", b"\xab" * 32)
    assert launch.how == "pyrdv run" and launch.pid == os.getpid()
    assert launch.host == os.uname().nodename


def test_the_launcher_may_name_the_host():
    assert env.detect(ranks_environment(PYRDV_HOST="node1")).host == "node1"
    assert env.detect({"PYRDV_HOST": "node1"}).host == os.uname().nodename


def test_the_secret_is_never_shown():
    assert "abab" not in repr(env.detect(ranks_environment()))
    with pytest.raises(ConfigError) as caught:
        env.detect(ranks_environment(PYRDV_SECRET="abab"))
    assert "abab" not in str(caught.value)


@pytest.mark.parametrize("missing", ["PYRDV_SIZE", "PYRDV_ADDRESS", "PYRDV_JOB", "PYRDV_SECRET",
                                     "PYRDV_PID"])
def test_missing_variable_is_named(missing):
    with pytest.raises(ConfigError, match=missing):
        env.detect(ranks_environment(**{missing: None}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("PYRDV_RANK", "4"), ("PYRDV_RANK", "-1"), ("PYRDV_RANK", "x"), ("PYRDV_RANK", "\u0663"),
     ("PYRDV_SIZE", "0"), ("PYRDV_SIZE", "9" * 40), ("PYRDV_ADDRESS", "nowhere"),
     ("PYRDV_ADDRESS", "h:0"), ("PYRDV_ADDRESS", ":80"), ("PYRDV_ADDRESS", "h:99999"),
     ("PYRDV_SECRET", "zz" * 32), ("PYRDV_JOB", "x" * 65), ("PYRDV_PID", "me")])
def test_broken_variable_is_named(name, value):
    with pytest.raises(ConfigError, match=name):
        env.detect(ranks_environment(**{name: value}))


def test_another_process_is_no_rank():
    launch = env.detect(ranks_environment(PYRDV_PID="1"))
    assert (launch.rank, launch.size, launch.how) == (0, 1, "child of a rank")


def test_descendant_of_a_wrapper_is_the_rank():
    assert env.detect(ranks_environment(PYRDV_PID="1", PYRDV_WRAPPED="1")).rank == 1


@pytest.mark.parametrize(
    ("variables", "who"),
    [({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2"}, "Open MPI"),
     ({"PMI_SIZE": "4", "PMI_RANK": "2"}, "MPICH"),
     ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"}, "srun"),
     ({"WORLD_SIZE": "4", "RANK": "2"}, "torchrun")])
def test_another_launcher_is_never_silent(variables, who):
    with pytest.warns(UserWarning, match=who) as caught:
        launch = env.detect(variables)
    assert launch.size == 1
    text = str(caught[0].message)
    assert "2 of 4" in text and "pyrdv run -n 4" in text


@pytest.mark.parametrize("variables", [
    {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
    {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # a batch script, which runs once
    {"PMI_SIZE": "junk", "PMI_RANK": "0"}])
def test_one_process_is_no_reason_to_warn(variables, recwarn):
    assert env.detect(variables).size == 1
    assert not recwarn.list


def test_child_processes_and_threads_of_a_rank(jobs):
    """A spawned or forked child is single, the secret is not inherited (field R03)."""
    status, out, err = jobs.run("""
        import multiprocessing, subprocess
        def child(queue):
            found = env.detect()
            queue.put((found.rank, found.size, found.how))
        if __name__ == "__main__":
            assert launch.size == 2 and "PYRDV_SECRET" not in os.environ
            assert env.detect() is launch
            client = join()
            for method in ("spawn", "fork"):
                context = multiprocessing.get_context(method)
                queue = context.Queue()
                process = context.Process(target=child, args=(queue,))
                process.start()
                print(launch.rank, method, queue.get(), flush=True)
                process.join()
            pid = os.fork()
            if pid == 0:
                try:
                    client.exchange(b"x")
                except Exception as error:
                    print("forked", type(error).__name__, "spawn" in str(error), flush=True)
                assert client.notices() == []
                client.leave()
                os._exit(0)
            os.waitpid(pid, 0)
            client.exchange(b"")
            client.leave()
        """, 2)
    assert status == 0, err
    lines = sorted(out.splitlines())
    single = "(0, 1, 'child of a rank')"
    assert lines == sorted(
        [f"{rank} {method} {single}" for rank in (0, 1) for method in ("spawn", "fork")]
        + ["forked ForkedError True"] * 2)


def test_importing_the_launch_package_does_not_import_numpy_or_ssl():
    code = ("import sys; import pyrdv.launch.env, pyrdv.launch.bootstrap, pyrdv.config; "
            "print([m for m in ('numpy', 'ssl', '_ssl', 'asyncio', 'argparse', 'subprocess') "
            "if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
