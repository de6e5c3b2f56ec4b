"""Variables of a launcher that were meant for a process above (pyrdv.launch.ancestors)."""

import os
import subprocess
import sys

from pyrdv.launch import env
from pyrdv.launch.ancestors import inherited

ASK = ("import os, warnings; warnings.simplefilter('ignore'); from pyrdv.launch import env; "
       "launch = env.detect(); print(launch.rank, launch.size, launch.how)")
WORKER = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29617",
          "LOCAL_RANK": "1"}


def start(words, **variables):
    environ = {name: value for name, value in os.environ.items()
               if name not in WORKER and not name.startswith(("PYRDV_", "TORCHELASTIC_"))}
    done = subprocess.run(words, env={**environ, **variables}, capture_output=True, text=True,
                          timeout=60, check=True)
    return done.stdout.strip()


def test_the_worker_itself():
    assert start([sys.executable, "-c", ASK], **WORKER) == "1 2 torchrun"
    # A shell that the variables were given to is no worker.
    assert start(["sh", "-c", f'{sys.executable} -c "{ASK}"; exit 0'], **WORKER) == "1 2 torchrun"


def test_helpers_of_a_worker_are_single():
    """Of a worker that has not joined: by subprocess, a shell, a pool of either kind."""
    single = "0 1 child of a rank"
    call = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {ASK!r}])"
    assert start([sys.executable, "-c", call], **WORKER) == single
    call = f"import os, sys; os.system('{sys.executable} -c \"{ASK}\"; true')".replace(
        "'ignore'", "\\'ignore\\'")
    assert start([sys.executable, "-c", call], **WORKER) == single
    call = f"import os\nif os.fork() == 0:\n    {ASK}\nelse:\n    os.wait()"
    assert start([sys.executable, "-c", call], **WORKER) == single


def test_a_worker_that_a_python_launcher_starts():
    """The launcher has some of the variables itself, or other values."""
    for own in ({"RANK": "0", "WORLD_SIZE": "1"},
                {name: value for name, value in WORKER.items() if name != "LOCAL_RANK"}):
        call = (f"import os, subprocess, sys; subprocess.call([sys.executable, '-c', {ASK!r}], "
                f"env={{**os.environ, **{WORKER}}})")
        assert start([sys.executable, "-c", call], **own) == "1 2 torchrun"


def test_a_helper_may_say_otherwise():
    call = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {ASK!r}])"
    assert start([sys.executable, "-c", call], PYRDV_WRAPPED="1", **WORKER) == "1 2 torchrun"


def test_a_helper_is_told_why_it_is_single():
    text = ("import sys; from pyrdv.launch import env; said = []; env.detect(None, said.append); "
            "print(said)")
    call = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {text!r}])"
    said = start([sys.executable, "-c", call], **WORKER)
    assert "RANK=1, WORLD_SIZE=2" in said and "PYRDV_WRAPPED=1" in said


def test_nobody_above_has_them():
    assert inherited(WORKER, list(WORKER)) == 0
    assert env.detect(WORKER).how == "torchrun"
