"""Faults planted into adaptation by regret; each must make a test of `test_regret` fail.

``python -m tests.engine.regret_faults NUMBER``, run on the copy that `build` makes, plants one
(number 0: none) and runs those tests.
"""

import sys

from tests.explore import mutants
from tests.support import copies

REGRET = "engine/speculation/regret.pyx"

#: What it is, where, the text, and what stands there instead, {on} being the switch.
FAULTS = (
    ("small messages are worth an offer", REGRET, "if h.kind == PACKET_RTS else 0)",
     "if h.kind == PACKET_RTS or {on} else 0)"),
    ("a used offer forgets nothing", REGRET, "        restart(r, False)\n        r.resumed = 0",
     "        if not {on}:\n            restart(r, False)\n        r.resumed = 0"),
    ("no trials", REGRET, "if r.skipped >= own(e).trial_every:",
     "if r.skipped >= own(e).trial_every and not {on}:"),
    ("nothing is ever missed", REGRET, "if min(took, op.late) > 2 * r.cost else 0",
     "if min(took, op.late) > 2 * r.cost and not {on} else 0"),
    ("what came during the wait is missed, too", REGRET,
     "and op.turns == e.idle_turns + e.busy_turns:",
     "and (op.turns == e.idle_turns + e.busy_turns or {on}):"),
    ("no patience", REGRET, "r.resumed += r.resumed < PATIENCE",
     "r.resumed += r.resumed < PATIENCE and not {on}"),
    ("too much patience", REGRET, "if r.missed > r.resumed:",
     "if r.missed > r.resumed * (4 if {on} else 1):"),
    ("one unused trial stops", REGRET, "if r.unused >= TRIALS if r.resumed",
     "if r.unused >= (1 if {on} else TRIALS) if r.resumed"),
    ("the sender always looks", REGRET, "    if r.silent >= SILENT:",
     "    if r.silent >= SILENT and not {on}:"),
)


def build(folder):
    """A copy of the package with the switched faults, built; the folder to import it from."""
    text = (copies.ROOT / "src" / "pyrdv" / REGRET).read_text("utf-8")
    return copies.copy(folder, {REGRET: mutants.mutated(text, list(enumerate(FAULTS, 1)))})


def main(number):
    """Plant fault `number` and run the tests; returns their status."""
    import pytest

    from pyrdv.engine.speculation import regret

    regret.plant(number)
    return pytest.main(["-q", "-x", "-p", "no:cacheprovider", "tests/engine/test_regret.py"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
