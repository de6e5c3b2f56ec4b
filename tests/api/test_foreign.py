"""What is no request, message, communicator … is refused by an exception; no process dies of it."""

import subprocess
import sys
from pathlib import Path

from tests.support.jobs import clean_environment

PROGRAM = Path(__file__).parent / "programs" / "foreign.py"


def test_no_argument_ends_the_process():
    """Each public callable, with strange objects in every place."""
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True,
                          env=clean_environment(), timeout=300)
    assert done.returncode == 0, f"status {done.returncode} at: {done.stderr[-2000:]}"
    assert int(done.stdout) > 10_000
