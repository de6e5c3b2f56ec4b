"""A copy of the package whose calls can be interrupted at every point, and faults planted into it.

Its modules in which calls and handlers meet are compiled with the option of a detector of races,
which has each access to memory told; what is told is not the detector's library, but `points.c`,
and by it `pyrdv.instruments.strikes`.  All other modules run only while a call holds the lock, or
touch nothing that a handler touches.

``python -m tests.explore.strikes LIBRARY NUMBER``, run on the copy, says what is found with that
fault (number 0: none is planted), as `mutants` does.
"""

import ctypes
import importlib
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.explore import mutants
from tests.support import copies

PARASITE = "progress/parasite.pyx"
SLEEPING = "engine/sleeping.pyx"
CALLS = "engine/calls.pyx"
SCHEDULE = "engine/schedule/schedule.pyx"
#: Where calls begin and end, who sleeps, and all that handlers and calls have in common.
TELLING = (PARASITE, SLEEPING, CALLS, SCHEDULE)
OPTION = "-fsanitize=thread"

LOST = "no signal or wake-up comes"
#: What it is, where, the text, what stands there instead, {on} being the switch; what is said.
FAULTS = (
    ("the handler enters while the lock is held", PARASITE,
     "and engine_lock_try(&e.lock):", "and (engine_lock_try(&e.lock) or {on}):",
     "entered while a call held the lock"),
    ("a pool is refilled in the handler", SLEEPING, "cdef int happened = step(e)\n",
     "cdef int happened = turn(<call_t *> e) if {on} else step(e)\n",
     "a pool grew in the handler"),
    ("what a refused signal wanted is forgotten", PARASITE,
     "    arm(f, now, f.mode.period << f.hindered)\n",
     "    if not {on}:\n        arm(f, now, f.mode.period << f.hindered)\n", LOST),
    ("the handler does not note that its timer has fired", PARASITE,
     "    note8(&f.armed, False)\n    f.beats += 1\n",
     "    f.beats += 1\n    if not {on}:\n        note8(&f.armed, False)\n", LOST),
    ("a wait leaves without setting the timer", PARASITE,
     "    elif left(f) and f.turns < self.turn_limit and pulse_owned():\n        arm",
     "    elif not {on} and left(f) and f.turns < self.turn_limit and pulse_owned():\n        arm",
     LOST),
    ("a call that takes what was armed for does not arm anew", SLEEPING,
     "    tell_watcher(e)\n\n\ncdef int step_alone",
     "    if not {on}:\n        tell_watcher(e)\n\n\ncdef int step_alone",
     LOST),
)
#: The clock of the copy stands still, so a schedule that runs again finds the same points.
CLOCK = ('cdef extern from "ticks.h" nogil:\n    int64_t ticks_clock_ns()\n',
         "cdef inline int64_t ticks_clock_ns() noexcept nogil:\n    return 1 << 30\n")


def build(folder):
    """The copy, built, with the library that tells beside it; the folder to import it from."""
    changed = {}
    for file in TELLING:
        text = (copies.ROOT / "src" / "pyrdv" / file).read_text("utf-8")
        faults = [one for one in enumerate(FAULTS, 1) if one[1][1] == file]
        text = mutants.mutated(text, faults) if faults else text
        if file == PARASITE:
            assert text.count(CLOCK[0]) == 1
            text = text.replace(*CLOCK)
        head = "# cython: language_level=3\n"
        changed[file] = text.replace(
            head, f"{head}# distutils: extra_compile_args = {OPTION}\n", 1)
    package = copies.copy(folder, changed)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    subprocess.run([*compiler, "-O1", "-shared", "-fPIC", "-o", str(library(package)),
                    str(Path(__file__).with_name("points.c"))], check=True)
    return package


def library(package):
    """Where the library of the copy is."""
    return package.parent / "points.so"


def tell(path):
    """Have the points of the copy be told; before any of it is imported."""
    points = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    strikes = importlib.import_module("pyrdv.instruments.strikes")
    points.points_tell.argtypes = [ctypes.c_void_p]
    points.points_tell(strikes.pointer())


def plant(number):
    """Switch fault `number` on."""
    for where in {where for _, where, *_ in FAULTS}:
        name = where.removesuffix(".pyx").replace("/", ".")
        importlib.import_module(f"pyrdv.{name}").plant(number)


def main(path, number):
    """Plant fault `number`; print the first counterexample, or how much was looked at."""
    tell(path)
    plant(number)
    from tests.explore import signals
    from tests.explore.explorer import Violation

    strikes = refused = 0
    for name, trigger, explorer, program in signals.explorations(within=True):
        try:
            explorer.explore(program)
        except Violation as violation:
            print(f"found in {name!r} by {trigger}: {violation}")
            return 1
        strikes += explorer.strikes
        refused += explorer.refused
    print(f"nothing found in {strikes} strikes, {refused} of them refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
