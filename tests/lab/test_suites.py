"""Runs the tests marked `verbs` inside the lab: one boot per suite, one row of the table each.

A row that collects nothing, skips something or runs fewer tests than it says fails: a suite cannot
vanish unseen.
"""

import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

import pytest


class Suite(NamedTuple):
    """One boot of the lab.

    `arguments` go to pytest, which runs on node 0 with ``--fabric`` and the first device of
    the kind; at least `least` tests must pass.  `limit` is in seconds and counts inside the guest.
    """

    name: str
    device: str
    nodes: int
    arguments: str
    least: int
    limit: int
    machine: str = "uml"


DEVICE = "tests/lab tests/fabrics tests/tools"
JOBS = "tests/verbs/test_jobs.py tests/verbs/test_startup.py"
FAILURES = "tests/verbs/test_failure.py tests/verbs/test_fork.py tests/verbs/test_limits.py"

SUITES = (
    Suite("device-rxe", "rxe", 1, DEVICE, 35, 300),
    Suite("device-siw", "siw", 1, DEVICE, 35, 300),
    Suite("conformance-rxe", "rxe", 1, "tests/conformance", 190, 600),
    Suite("conformance-siw", "siw", 1, "tests/conformance", 190, 600),
    Suite("jobs-rxe", "rxe", 2, JOBS, 30, 600),
    Suite("jobs-siw", "siw", 2, JOBS, 30, 600),
    Suite("hostile-rxe", "rxe", 2, "tests/verbs/test_hostile.py", 60, 600),
    Suite("hostile-siw", "siw", 2, "tests/verbs/test_hostile.py", 60, 600),
    Suite("failures-rxe", "rxe", 2, FAILURES, 36, 900),
    Suite("failures-siw", "siw", 2, FAILURES, 36, 900),
)


@pytest.mark.timeout(3600)  # the suite's own limit holds; a kernel may have to be built first
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suite(suite, lab, tmp_path, say):
    command = (f"python -m pytest -q -p no:cacheprovider --fabric {suite.device}0 "
               f"--junitxml=$LAB_OUT/report.xml {suite.arguments}")
    result = lab(command, nodes=suite.nodes, devices=(suite.device,), machine=suite.machine,
                 limit=suite.limit, out=tmp_path)
    last = (result.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")
    say(f"lab suite {suite.name}: {last} (with boot {result.seconds:.1f} s) ")
    assert result.status == 0, result.report()
    passed, skipped = _count(tmp_path / "report.xml")
    assert not skipped, f"{skipped}\n{result.report()}"
    assert passed >= suite.least, result.report()


def _count(report):
    """How many tests passed, and the names of those that were skipped."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    bad = [case for case in cases if case.find("failure") is not None
           or case.find("error") is not None]
    return len(cases) - len(skipped) - len(bad), skipped
