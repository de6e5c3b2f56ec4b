"""Runs files of mpi4py's test suite on all ranks: ``judge.py FOLDER NAME[:TEST,…]…``.

The tests named behind a colon are left out; each must be there.  Every rank says how it reaches the
others and prints a line per file: ``judged NAME rank R ran N bad N skipped N``.
"""

import io
import sys
import unittest

from mpi4py import MPI


def tests_of(suite):
    """Every test case of a suite, however deep."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def judge(name, left_out):
    """Run one file; returns its line."""
    tests = list(tests_of(unittest.defaultTestLoader.loadTestsFromName(name)))
    absent = left_out - {test._testMethodName for test in tests}
    if absent:
        raise SystemExit(f"{name} has no tests {absent}")
    suite = unittest.TestSuite(test for test in tests if test._testMethodName not in left_out)
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
    file, _, names = each.partition(":")
    print(judge(file, set(filter(None, names.split(",")))), flush=True)
    MPI.COMM_WORLD.Barrier()
