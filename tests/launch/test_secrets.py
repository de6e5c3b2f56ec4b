"""How ranks get the job's secret (pyrdv.launch.secrets): not by the environment."""

import os
import sys

import pytest

from pyrdv.errors import ConfigError
from pyrdv.launch import env, secrets

SECRET = bytes(range(32))


@pytest.fixture
def slot():
    fd = os.open(os.devnull, os.O_RDONLY)
    yield fd
    try:
        os.close(fd)
    except OSError:
        pass  # taken


def test_it_can_be_taken_once(slot):
    secrets.offer(SECRET, slot)
    assert not os.get_inheritable(slot)
    other = os.dup(slot)
    assert secrets.take(slot) == SECRET
    with pytest.raises(ConfigError, match=f"PYRDV_SECRET_FD={other}: another process has taken"):
        secrets.take(other)
    with pytest.raises(ConfigError, match="have closed it"):
        secrets.take(slot)


def test_something_else_of_that_number_is_left_alone(slot):
    """A wrapper may have closed it and opened a file or a pipe of its own."""
    with pytest.raises(ConfigError, match="have closed it; such programs must leave"):
        secrets.take(slot)
    read, write = os.pipe()
    os.write(write, b"theirs")
    with pytest.raises(ConfigError, match="have closed it"):
        secrets.take(read)
    assert os.read(read, 10) == b"theirs"
    os.close(read)
    os.close(write)


def test_who_only_looks_does_not_take_it(slot):
    """``pyrdv doctor`` before the program, in one script."""
    secrets.offer(SECRET, slot)
    variables = {"PYRDV_RANK": "0", "PYRDV_SIZE": "2", "PYRDV_ADDRESS": "127.0.0.1:9",
                 "PYRDV_JOB": "j", "PYRDV_SECRET_FD": str(slot), "PYRDV_PID": str(os.getpid())}
    looked, joins = env.detect(variables), env.detect(variables)
    assert (looked.rank, looked.size) == (0, 2) and "secret" not in repr(looked)
    assert joins.secret == joins.secret == SECRET


JOIN = """
    import subprocess
    client = join()
    secret = launch.secret
    for pid in (os.getpid(), os.getppid()):
        for what in ("environ", "cmdline"):
            with open(f"/proc/{pid}/{what}", "rb") as file:
                text = file.read()
            assert secret not in text and secret.hex().encode() not in text
    number = int(dict(word.split("=", 1) for word in open("/proc/self/environ").read().split("\\0")
                      if "=" in word)["PYRDV_SECRET_FD"])
    assert "PYRDV_SECRET_FD" not in os.environ
    try:
        os.read(number, 1)
    except OSError:
        pass
    else:
        assert os.readlink(f"/proc/self/fd/{number}").startswith("socket")
    child = f"import os; print(os.path.exists('/proc/self/fd/{number}'))"
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True,
                          close_fds=False)
    assert done.stdout == "False\\n", done
    client.exchange(b"x")
    print("joined", launch.rank)
    client.leave()
"""


@pytest.mark.parametrize("wrapper", [
    [], ["env"], ["sh", "-c", '"$@"', "sh"], ["sh", "-c", 'ls >&2; "$@"; true', "sh"],
    ["bash", "-c", '"$@" | cat; exit ${PIPESTATUS[0]}', "bash"], ["nice", "env"]],
    ids=["none", "env", "sh", "sh that stays", "bash with a pipe", "two"])
def test_no_process_shows_it_and_wrappers_hand_it_on(jobs, wrapper):
    program = jobs.write(JOIN)
    words = [*wrapper, sys.executable, program] if wrapper else [program]
    status, out, err = jobs.finish(jobs.start(words, 2))
    assert (status, sorted(out.splitlines())) == (0, ["joined 0", "joined 1"]), err


def test_an_agent_hands_it_on(jobs):
    status, out, err = jobs.run(JOIN, 2, "--agent", "env")
    assert (status, sorted(out.splitlines())) == (0, ["joined 0", "joined 1"]), err


def wrapped(jobs, text):
    """Outcome of a job of one rank below a wrapper in Python; ``command`` there is the rank's."""
    program = jobs.write(JOIN)
    (jobs.folder / "wrapper").write_text(
        f"#!{sys.executable}\nimport os, subprocess, sys\n"
        f"command = [sys.executable, {program!r}]\n{text}")
    (jobs.folder / "wrapper").chmod(0o755)
    return jobs.finish(jobs.start(["./wrapper"], 1))


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_wrapper_in_python(jobs, closes, depth):
    """It still has the descriptor that it closes in its child."""
    prefix = [sys.executable, "-c", "import subprocess, sys; "
              "sys.exit(subprocess.call(sys.argv[1:]))"] * (depth - 1)
    status, out, err = wrapped(
        jobs, f"sys.exit(subprocess.call([*{prefix!r}, *command], close_fds={closes}))\n")
    assert (status, out) == (0, "joined 0\n"), err


def test_a_wrapper_that_has_closed_its_descriptors(jobs):
    status, _, err = wrapped(jobs, "os.closerange(3, 256)\nsys.exit(subprocess.call(command))\n")
    assert status != 0 and "PYRDV_SECRET_FD=" in err and "have closed it" in err
    assert "close_fds=False" in err


def test_a_process_of_another_job_is_left_alone(monkeypatch):
    """As the number says where the rank is in another pid namespace than the one it is of."""
    slot = os.dup(0)
    secrets.offer(SECRET, slot)
    with pytest.raises(ConfigError, match="have closed it"):
        secrets.take(9999, os.getppid(), "a job of no process")
    assert secrets.take(slot) == SECRET


def test_of_two_below_one_wrapper_the_second_is_told(jobs):
    program = jobs.write(JOIN)
    script = 'for _ in 1 2; do "$@" || exit 5; done'
    status, out, err = jobs.finish(
        jobs.start(["sh", "-c", script, "sh", sys.executable, program], 1))
    assert status == 5 and out == "joined 0\n" and "another process has taken" in err
