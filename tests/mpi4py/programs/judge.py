"""Runs files of mpi4py's test suite on all ranks: ``judge.py FOLDER NAME…``.

Every rank says how it reaches the others and prints a line per file:
``judged NAME rank R ran N bad N skipped N``.
"""

import io
import sys
import unittest

from mpi4py import MPI


def judge(name):
    """Run one file; returns its line."""
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    out = io.StringIO()
    result = unittest.TextTestRunner(out, verbosity=2).run(suite)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    if bad or result.skipped:
        print(f"{name} on rank {MPI.COMM_WORLD.rank}:\n{out.getvalue()}", file=sys.stderr)
    return (f"judged {name} rank {MPI.COMM_WORLD.rank} ran {result.testsRun} bad {bad} "
            f"skipped {len(result.skipped)}")


sys.path.insert(0, sys.argv[1])
print(f"judge {MPI.COMM_WORLD.rank} reaches {sorted(MPI.fabrics().values())}", flush=True)
for each in sys.argv[2:]:
    print(judge(each), flush=True)
    MPI.COMM_WORLD.Barrier()
