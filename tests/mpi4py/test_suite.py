"""mpi4py's own tests of messages and collectives, run unchanged by pyrdv.

The table says how many tests each file has; so many must run, and pass, on every rank. A file that
finds nothing, or skips something, fails. A second table names the tests that are left out, for they
need what is not offered; a name that is not there fails, too.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mpi4py import source
from tests.support.jobs import Jobs

PROGRAM = Path(__file__).parent / "programs" / "judge.py"
RANKS = (1, 2, 4)
#: Seconds for all files in one job: the collectives of four ranks are many small ones.
LIMIT = 400.0

#: File of mpi4py's folder ``test`` -> how many tests it has.
FILES = {
    "test_p2p_buf": 52,
    "test_p2p_obj": 92,
    "test_p2p_buf_matched": 11,
    "test_p2p_obj_matched": 10,
    "test_msgzero": 8,
    "test_request": 12,
    "test_grequest": 7,
    "test_status": 11,
    "test_pickle": 6,
    "test_comm": 101,
    "test_group": 52,
    "test_cco_buf": 68,
    "test_cco_vec": 50,
    "test_cco_obj": 40,
    "test_cco_nb_buf": 66,
    "test_cco_nb_vec": 50,
    "test_cco_pr_buf": 66,
    "test_cco_pr_vec": 50,
}

#: What of them needs derived datatypes, or Alltoallw, which takes them.
LEFT_OUT = {
    "test_cco_buf": ("testBcastTypeIndexed",),
    "test_cco_vec": ("testAlltoallw", "testAlltoallwBottom", "testAlltoallw2"),
    "test_cco_nb_buf": ("testBcastTypeIndexed",),
    "test_cco_nb_vec": ("testAlltoallw", "testAlltoallwBottom", "testAlltoallw2"),
    "test_cco_pr_buf": ("testBcastTypeIndexed",),
    "test_cco_pr_vec": ("testAlltoallw", "testAlltoallwBottom", "testAlltoallw2"),
}
#: The files as the program takes them.
WORDS = tuple(":".join((name, *filter(None, [",".join(LEFT_OUT.get(name, ()))])))
              for name in FILES)

LINE = re.compile(r"judged (\S+) rank (\d+) ran (\d+) bad (\d+) skipped (\d+)")


class Verdict(NamedTuple):
    """How one file ended on one rank."""

    ran: int
    bad: int
    skipped: int


def verdicts(text):
    """{(file, rank): Verdict} of the lines of a job."""
    return {(name, int(rank)): Verdict(int(ran), int(bad), int(skipped))
            for name, rank, ran, bad, skipped in LINE.findall(text)}


@pytest.fixture(scope="module")
def judged(mpi4py_source, tmp_path_factory):
    """Runs all files on so many ranks, once; returns outcome and verdicts."""
    known = {}

    def run(ranks):
        if ranks not in known:
            jobs = Jobs(tmp_path_factory.mktemp("judge"))
            try:
                outcome = jobs.run([PROGRAM], ranks, args=[str(mpi4py_source / "test"), *WORDS],
                                   env=source.environment(), limit=LIMIT)
            finally:
                jobs.close()
            known[ranks] = outcome, verdicts(outcome.out)
        return known[ranks]

    return run


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", FILES)
def test_file(judged, name, ranks):
    outcome, found = judged(ranks)
    mine = {rank: verdict for (file, rank), verdict in found.items() if file == name}
    assert mine == {rank: Verdict(FILES[name], 0, 0) for rank in range(ranks)}, f"{outcome}"


@pytest.mark.parametrize("ranks", RANKS)
def test_job_ends_in_order(judged, ranks):
    judged(ranks)[0].ok()


def test_planted_failures_are_caught(jobs, mpi4py_source):
    """A file without tests, one that fails and one that skips show in the lines."""
    jobs.write("import mpiunittest as unittest\n", "test_none.py")
    jobs.write("import unittest\nclass T(unittest.TestCase):\n    def test(self): assert 0\n"
               "    @unittest.skip('no')\n    def test_not(self): pass\n", "test_bad.py")
    outcome = jobs.run([PROGRAM], 2, args=[str(jobs.folder), "test_none", "test_bad"],
                       env={**source.environment(),
                            "PYTHONPATH": f"{source.environment()['PYTHONPATH']}:"
                                          f"{mpi4py_source / 'test'}"})
    assert verdicts(outcome.out) == {
        (name, rank): verdict for rank in range(2)
        for name, verdict in (("test_none", Verdict(0, 0, 0)), ("test_bad", Verdict(2, 1, 1)))}
