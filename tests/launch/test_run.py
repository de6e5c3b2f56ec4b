"""``pyrdv run``: starting, exit statuses, the end of jobs (field L03, L09, L13, X05)."""

import os
import subprocess
import sys
import time

import pytest


def clean():
    return {name: value for name, value in os.environ.items() if not name.startswith("PYRDV_")}


def test_ranks_meet(jobs):
    status, out, err = jobs.run("""
        client = join()
        values = client.exchange(b"%d" % (launch.rank * launch.rank))
        print(launch.rank, launch.size, values)
        client.leave()
        """, 4)
    assert (status, err) == (0, "")
    squares = [b"0", b"1", b"4", b"9"]
    assert sorted(out.splitlines()) == [f"{rank} 4 {squares}" for rank in range(4)]
    assert jobs.gone() is True


def test_module_arguments_and_folder(jobs):
    jobs.write("print(sys.argv[1:], __name__)", "mod.py")
    status, out, _ = jobs.run(["mod", "-n", "7", "--", "x"], 2, "-m",
                              env={"PYTHONPATH": str(jobs.folder)})
    assert status == 0
    assert out.splitlines() == ["['-n', '7', '--', 'x'] __main__"] * 2


def test_folder_with_main(jobs):
    (jobs.folder / "app").mkdir()
    (jobs.folder / "app" / "__main__.py").write_text("print('app')\n")
    assert jobs.run(["app"], 1)[:2] == (0, "app\n")


def test_other_executables_are_executed_as_they_are(jobs):
    status, out, err = jobs.run(["sh", "-c", "echo $PYRDV_RANK/$PYRDV_SIZE"], 2)
    assert status == 0 and sorted(out.splitlines()) == ["0/2", "1/2"], err
    script = jobs.folder / "script"
    script.write_text("#!/bin/sh\necho script $1\n")
    script.chmod(0o755)
    assert jobs.run(["./script", "a b"], 1)[:2] == (0, "script a b\n")


def test_the_descendant_of_a_wrapper_is_the_rank(jobs):
    program = jobs.write("client = join(); print(client.exchange(b'%d' % launch.rank)); "
                         "client.leave()")
    status, out, err = jobs.run(["sh", "-c", f"{sys.executable} {program}; exit $?"], 2)
    assert (status, out) == (0, "[b'0', b'1']\n" * 2), err


def test_python_by_name_is_the_rank_itself(jobs):
    program = jobs.write("client = join(); print(launch.how, client.size); client.leave()")
    assert jobs.run([sys.executable, program], 2)[:2] == (0, "pyrdv run 2\n" * 2)


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [(["no-such-program-here"], 127, "no program 'no-such-program-here'"),
     (["missing.py"], 127, "no file 'missing.py'"),
     (["./notes.txt"], 126, "cannot be executed"),
     (["./broken"], 126, "Exec format error")])
def test_what_cannot_be_started(jobs, words, status, part):
    (jobs.folder / "notes.txt").write_text("x")
    (jobs.folder / "broken").write_text("\x00\x01")
    (jobs.folder / "broken").chmod(0o755)
    got, out, err = jobs.run(words, 3)
    assert (got, out) == (status, "") and part in err
    assert err.count("\n") == 1 and err.startswith("pyrdv run: ")
    assert jobs.gone() is True


# --- exit status ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status"),
    [("pass", 0),
     ("sys.exit(2)", 2),
     ("sys.exit(3 if launch.rank == 1 else 0)", 3),
     ("time.sleep(0.5 * launch.rank); sys.exit(5 + launch.rank)", 5),
     ("os._exit(255) if launch.rank == 1 else time.sleep(60)", 255),
     ("os.kill(os.getpid(), signal.SIGKILL) if launch.rank == 1 else time.sleep(60)", 137),
     ("os.abort() if launch.rank == 0 else time.sleep(60)", 134),
     ("raise ValueError('boom') if launch.rank == 1 else time.sleep(60)", 1)])
def test_status_of_the_rank_that_failed_first(jobs, code, status):
    got, _, err = jobs.run(code, 2, "--grace", "0.1", shell_before="ulimit -c 0")
    assert got == status, err
    if status:
        assert f"status {status}" in err or "signal" in err
        # One line says which rank, process and host.
        line, = [line for line in err.splitlines() if line.startswith("pyrdv run: rank ")]
        assert os.uname().nodename in line and "process " in line
    else:
        assert err == ""
    assert jobs.gone() is True


def test_a_rank_that_ends_early_with_0_ends_nobody(jobs):
    status, out, err = jobs.run("""
        if launch.rank == 1: sys.exit(0)
        time.sleep(0.7); print("done")
        """, 2, "--grace", "0.1")
    assert (status, out, err) == (0, "done\n", "")


@pytest.mark.parametrize(("code", "status"), [(3, 3), (0, 1), (256, 1), (259, 3)])
def test_abort(jobs, code, status):
    began = time.monotonic()
    got, out, err = jobs.run(f"""
        client = join(); client.exchange(b"")
        print("before", launch.rank)
        if launch.rank == 1: client.abort({code}, "matrix is singular"); os._exit(99)
        time.sleep(60)
        """, 3)
    assert got == status
    assert "rank 1 aborted the job" in err and "matrix is singular" in err
    assert sorted(out.splitlines()) == ["before 0", "before 1", "before 2"]
    assert time.monotonic() - began < 20


def test_the_others_learn_of_a_dead_rank_before_they_are_ended(jobs):
    status, out, err = jobs.run("""
        client = join(); client.exchange(b"")
        if launch.rank == 1: os.kill(os.getpid(), signal.SIGKILL)
        try:
            client.exchange(b"")
        except Exception as error:
            print(launch.rank, type(error).__name__, error.peer, error)
        for found in client.notices(): print(launch.rank, found[:2])
        sys.exit(9)
        """, 3, "--grace", "20")
    assert status == 137 and "rank 1" in err and "SIGKILL" in err and "memory" in err
    for rank in (0, 2):
        assert f"{rank} PeerLostError 1" in out and f"{rank} (1, 'lost')" in out
    assert "was killed by signal 9" in out


def test_ranks_that_never_join_do_not_hang_those_who_wait(jobs):
    status, out, _ = jobs.run("""
        if launch.rank == 1: sys.exit(0)
        try: join().exchange(b"")
        except Exception as error: print(type(error).__name__, error)
        """, 2)
    assert status == 0 and "PeerLostError rank 1 ended with status 0 without joining" in out


def test_last_words_come_before_the_end(jobs):
    """leave() just before the process ends is never taken for a loss."""
    status, out, err = jobs.run("""
        client = join(); client.exchange(b"")
        if launch.rank: client.leave(); os._exit(0)
        seen = []
        while len(seen) < 7: seen += client.notices(); time.sleep(0.005)
        print(sorted((rank, kind) for rank, kind, _ in seen))
        client.leave()
        """, 8)
    assert (status, err) == (0, "")
    assert out.strip() == str([(rank, "left") for rank in range(1, 8)])


def test_exec_of_another_program_is_no_failure(jobs):
    status, out, err = jobs.run("""
        client = join(); client.exchange(b"")
        for _ in range(20): assert os.system("true") == 0
        if launch.rank == 1:
            os.execvp("sh", ["sh", "-c", "ls /proc/self/fd | wc -l; exit 0"])
        time.sleep(0.6)
        print([kind for _, kind, _ in client.notices()])
        client.leave()
        """, 2, "--grace", "0.1")
    assert (status, err) == (0, "")
    # 0, 1, 2 and the one that ls reads the folder with: nothing of ours was inherited.
    assert sorted(out.splitlines()) == ["4", "['lost']"]


def test_sigkill_follows_sigterm_after_the_time_given(jobs):
    began = time.monotonic()
    status, _, err = jobs.run("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        client = join(); client.exchange(b"")
        if launch.rank == 3: os._exit(4)
        time.sleep(100)
        """, 8, "--grace", "0.1", "--kill-after", "3")
    assert status == 4 and "ending the 7 ranks" in err
    assert 3.0 < time.monotonic() - began < 15.0
    assert jobs.gone() is True


def test_timeout(jobs):
    status, out, err = jobs.run("print('started'); time.sleep(100)", 2, "--timeout", "1")
    assert status == 124 and "time of 1 s is up; ranks still running: 0, 1" in err
    assert out == "started\n" * 2
    assert jobs.gone() is True


# --- environment ------------------------------------------------------------------------------


def test_nested_run_is_a_job_of_its_own(jobs):
    inner = jobs.write("client = join(); print(launch.job, client.exchange(b'%d' % launch.rank)); "
                       "client.leave()", "inner.py")
    status, out, err = jobs.run(f"""
        import subprocess
        client = join(); client.exchange(b"")
        done = subprocess.run([sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "3",
                               {inner!r}], capture_output=True, text=True)
        print(done.stdout, end="")
        assert done.returncode == 0, done.stderr
        assert launch.job not in done.stdout
        client.leave()
        """, 2)
    assert status == 0, err
    values = [line.split(" ", 1) for line in out.splitlines()]
    assert len(values) == 6 and len({job for job, _ in values}) == 2
    assert all(rest == "[b'0', b'1', b'2']" for _, rest in values)


def test_variables_and_affinity(jobs):
    status, out, _ = jobs.run(
        "print(os.environ['GREETING'], sorted(os.sched_getaffinity(0)))", 1, "--env",
        "GREETING=a=b")
    assert status == 0 and out == f"a=b {sorted(os.sched_getaffinity(0))}\n"


@pytest.mark.parametrize(
    ("options", "part"),
    [(["--env", "PYRDV_RANK=1"], "set by the launcher"), (["--env", "X"], "NAME=VALUE"),
     (["-n", "0"], "number of processes"), (["--timeout", "-1"], "number of seconds"),
     (["--no-such"], "unrecognized")])
def test_wrong_options_are_named(jobs, options, part):
    status, _, err = jobs.run("pass", 1, *options)
    assert status == 2 and part in err and "usage: pyrdv run" in err


def test_bad_setting_is_one_error_and_not_one_per_rank(jobs):
    status, _, err = jobs.run("pass", 4, env={"PYRDV_SPIN": "fast"})
    assert status == 1
    assert err.count("PYRDV_SPIN='fast' is not allowed") == 1 == err.count("\n")


def test_ranks_have_default_signals_and_few_descriptors(jobs):
    status, out, _ = jobs.run("""
        import subprocess
        # No program for the second part: a shell blocks all signals while it starts one.
        print(subprocess.run(["sh", "-c", "ls /proc/$$/fd; while read -r line; do case $line in "
              "SigBlk*|SigIgn*) echo $line;; esac; done </proc/$$/status"],
              capture_output=True, text=True, restore_signals=False).stdout.split())
        with open("/proc/self/fd/0"): pass
        """, 1)
    words = eval(out)
    ignored = int(words[words.index("SigIgn:") + 1], 16)
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25) again; nothing else may be ignored, but
    # for 32 and 33, which the C library keeps to itself and lets nobody set.
    assert ignored & ~(1 << 12 | 1 << 24 | 1 << 31 | 1 << 32) == 0
    assert int(words[words.index("SigBlk:") + 1], 16) == 0


def test_sixteen_ranks_with_sixty_four_descriptors(jobs):
    code = """
        import resource
        client = join(60); values = client.exchange(b"%d" % launch.rank)
        assert len(values) == 16
        print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        client.leave()
        """
    status, out, err = jobs.run(code, 16, shell_before="ulimit -n 64")
    assert (status, out) == (0, "64\n" * 16), err
    # A soft limit is raised for the launcher, but not for the ranks.
    status, out, err = jobs.run(code, 16, shell_before="ulimit -Sn 40")
    assert (status, out) == (0, "40\n" * 16), err


def test_too_few_descriptors_are_one_clear_error(jobs):
    status, _, err = jobs.run("pass", 40, shell_before="ulimit -n 64")
    assert status == 1
    for part in ("40 ranks", "RLIMIT_NOFILE is 64", "ulimit -Hn 136", "at most 16 ranks"):
        assert part in err
    assert err.count("\n") == 1


def test_no_advice_that_cannot_be_taken(jobs):
    status, _, err = jobs.run("pass", 2, shell_before="ulimit -n 12")
    assert status == 1 and err.count("\n") == 1
    for part in ("2 ranks need 22 open files", "RLIMIT_NOFILE is 12 (hard limit 12)",
                 "ulimit -Hn 22"):
        assert part in err
    assert "at most" not in err
    _, _, err = jobs.run("pass", 2, shell_before="ulimit -n 20")
    assert "start at most 1 rank\n" in err


def test_no_room_for_processes_is_one_clear_error(jobs):
    """The system refuses a process for rank 2: those already started are ended."""
    driver = jobs.folder / "driver.py"
    driver.write_text("""
import errno, os, sys
from pyrdv.launch import run
from pyrdv.tools import cli
real, started = run.spawn, []
def spawn(*args):
    if len(started) == 2:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    started.append(real(*args))
    return started[-1]
run.spawn = spawn
status = cli.main(["run", "-n", "4", "sleep", "100"])
for pid in started:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        continue
    sys.exit(99)
print(len(started), sorted(map(int, os.listdir("/proc/self/fd"))))
sys.exit(status)
""")
    done = subprocess.run([sys.executable, driver], capture_output=True, text=True, timeout=60,
                          env=clean())
    assert done.returncode == 1, done.stderr
    assert "rank 2 of 4 cannot be started" in done.stderr and "ulimit -u" in done.stderr
    assert "RLIMIT_NPROC is " in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == "2 [0, 1, 2, 3]\n"  # 3 is the folder being listed: nothing leaked


def test_nothing_is_left_in_the_file_system(jobs):
    places = ["/tmp", "/dev/shm", os.environ.get("TMPDIR", "/tmp"), str(jobs.folder)]
    before = [set(os.listdir(place)) for place in places]
    status, _, _ = jobs.run("""
        client = join(); client.exchange(b"")
        os.kill(os.getpid(), signal.SIGKILL)
        """, 3)
    assert status == 137
    for place, names in zip(places, before, strict=True):
        # A lab that runs beside keeps its folder there.
        new = {name for name in set(os.listdir(place)) - names
               if "pyrdv" in name and not name.startswith("pyrdv-lab-")}
        assert not new


@pytest.mark.parametrize("closed", ["<&-", "<&- 2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors(jobs, closed):
    """No rank gets a descriptor of the launcher's own; where it may still write, it does."""
    status, out, _ = jobs.run("""
        client = join(); client.exchange(b"")
        inputs = [os.readlink("/proc/self/fd/0"), os.read(0, 10)]
        with open(f"input{launch.rank}", "w") as file: file.write(str(inputs))
        print("out")
        client.leave()
        """, 2, shell_before=f"exec {closed}")
    assert status == 0 and out == ("" if ">&-" in closed.replace("2>&-", "") else "out\n" * 2)
    for rank in range(2):
        if "<&-" in closed or rank:
            assert jobs.wait_file(f"input{rank}") == "['/dev/null', b'']"


# --- the other commands -----------------------------------------------------------------------


def cli(*words, **environ):
    done = subprocess.run([sys.executable, "-m", "pyrdv.tools.cli", *words], capture_output=True,
                          text=True, env={**clean(), **environ}, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_help_and_version():
    status, out, _ = cli("--help")
    assert status == 0
    for command in ("run", "bench", "config"):
        assert f"  {command} " in out
    status, out, _ = cli("--version")
    assert status == 0 and out.startswith("pyrdv ")
    status, out, _ = cli("run", "--help")
    assert status == 0
    for part in ("--kill-after", "--prefix", "--timeout", "exit status", "PROGRAM"):
        assert part in out
    assert cli()[0] == 2
    status, _, err = cli("rum")
    assert status == 2 and "'rum'" in err and "run" in err
    status, _, err = cli("run", "-n", "2")
    assert status == 2 and "PROGRAM is missing" in err


def test_config_lists_values_and_where_they_come_from():
    status, out, err = cli("config", PYRDV_EAGER_MAX="64K", PYRDV_TIMEOUT_START="2")
    assert (status, err) == (0, "")
    assert "PYRDV_EAGER_MAX=64K  (environment)" in out
    assert "PYRDV_TIMEOUT_START=2 s  (environment)" in out
    assert "PYRDV_UNEXPECTED_MAX=64M  (default)" in out
    status, _, err = cli("config", PYRDV_SPIN="x")
    assert status == 1 and "PYRDV_SPIN" in err


def test_options_with_values_are_known_to_the_splitter():
    import argparse

    from pyrdv.launch import command

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    valued = {name for action in parser._actions if action.nargs is None
              for name in action.option_strings}
    assert valued == set(command.VALUED)
    assert command.split_command(["-n", "2", "-l", "--timeout=3", "p.py", "-n", "3"]) == (
        ["-n", "2", "-l", "--timeout=3"], ["p.py", "-n", "3"])
    assert command.split_command(["-n2", "--", "-p", "--"]) == (["-n2"], ["-p", "--"])
