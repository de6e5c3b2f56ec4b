"""What ends a program: only an exception that ends it makes its rank leave its sends behind."""

import sys

import pytest

HEAD = """
import os, sys, threading
from pyrdv import MPI
comm = MPI.COMM_WORLD
"""
# Rank 0 gets what rank 1 has sent before; its end has to wait for that.
DELIVERED = HEAD + """
if comm.rank == 0:
    comm.Probe(1)
    print(len(comm.recv(None, 1, 2)), comm.recv(None, 1))
else:
    kept = [comm.isend("first", 0), comm.isend(b"x" * 3_000_000, 0, 2)]
"""
HANDLED = """
    try: 1 / 0
    except ZeroDivisionError as error:
        sys.last_type, sys.last_value = type(error), error
        sys.last_traceback = error.__traceback__
"""
GOOD = {
    "last_value": HANDLED,
    "last_value without traceback": "    sys.last_value = ValueError()",
    "then exit": HANDLED + "    raise SystemExit(0)",
    "another hook": "    sys.excepthook = print\n" + HANDLED + "    sys.exit(0)",
    "hook called": "    try: 1 / 0\n    except ArithmeticError: sys.excepthook(*sys.exc_info())",
    "console": "    import code\n    code.InteractiveConsole({}).push('1 / 0')",
    "thread": "    t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()",
}


@pytest.mark.parametrize("way", GOOD)
def test_a_program_that_goes_on_delivers(jobs, way):
    outcome = jobs.run(DELIVERED + GOOD[way], 2, limit=60)
    assert (outcome.status, outcome.out) == (0, "3000000 first\n"), outcome


def test_an_interactive_interpreter_delivers(jobs):
    """``python -i``: neither the script's exception nor that of a line ends it."""
    program = jobs.write(DELIVERED + "    1 / 0\n")
    outcome = jobs.run([sys.executable, "-i", program], 2, limit=60)
    assert (outcome.status, outcome.out) == (0, "3000000 first\n"), outcome


# Rank 0 never receives it: who waited for that would wait until rank 0 is ended.
NEVER = HEAD + """
if comm.rank == 0:
    comm.recv(None, 1, 7)
kept = comm.isend(b"x" * 3_000_000, 0)
"""
MINE = "sys.excepthook = lambda *_: None\n"
ENDS = {
    "plain": "raise ValueError",
    "after a handled one": HANDLED.replace("\n    ", "\n") + "raise ValueError",
    "in a function": "def f(): raise ValueError\nf()",
    "chained hook": "old = sys.excepthook\nsys.excepthook = lambda *a: old(*a)\nraise ValueError",
    "another hook": MINE + "raise ValueError",
    "another hook, bare raise": MINE + "try: 1 / 0\nexcept ArithmeticError:\n    raise",
    "another hook, finally": MINE + "try: 1 / 0\nfinally: old = 3",
    "another hook, with": MINE + "with open('/dev/null'): {}['key']",
}


@pytest.mark.parametrize("way", ENDS)
def test_an_exception_that_ends_the_program_waits_for_nobody(jobs, way):
    outcome = jobs.run(NEVER + ENDS[way], 2, limit=60)
    assert outcome.status == 1 and "never received" not in outcome.err, outcome
    assert "rank 1, which failed first" in outcome.err.splitlines()[-1], outcome


def test_closed_standard_streams_do_not_keep_an_abort(jobs):
    outcome = jobs.run(HEAD + """
sys.stdout.close()
sys.stderr = None
if comm.rank: comm.Abort(9)
comm.recv(None, 1)
""", 2, limit=60)
    assert outcome.status == 9, outcome
