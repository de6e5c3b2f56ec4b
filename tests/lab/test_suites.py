"""Runs the tests marked `verbs` inside the lab, one row of the table each.

A row runs on both kinds of device at the same time, each in a guest of its own: much of a suite is
waiting.  A suite that collects nothing, skips something or runs fewer tests than its row says
fails: it cannot vanish unseen.

Where the guest's kernel fell (docs/lab.md says how siw does), the row runs once more, and says so:
what a kernel does with the calls of a program is no answer of pyrdv.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.mpi4py import source

from .machine import DEVICES, ROOT

VERBS = ROOT / "tests" / "verbs"


class Suite(NamedTuple):
    """Two boots of the lab.

    `arguments` go to pytest, which runs on node 0 with ``--fabric`` and the first device of
    the kind; at least `least` tests must pass.  `limit` is in seconds and counts inside the guest.
    """

    name: str
    nodes: int
    arguments: str
    least: int
    limit: int
    before: Callable = lambda: None     # on the host, for what the guest cannot fetch


SUITES = (
    Suite("device", 1, "tests/lab tests/fabrics tests/tools", 35, 400),
    Suite("conformance", 1, "tests/conformance", 190, 900),
    Suite("jobs", 2, "tests/verbs/test_jobs.py tests/verbs/test_startup.py "
                     "tests/verbs/test_tune.py tests/verbs/test_calibration.py "
                     "tests/verbs/test_choice.py "
                     "tests/verbs/test_bench_large.py "
                     "tests/verbs/test_bench_protocols.py", 118, 900),
    Suite("progress", 2, "tests/verbs/test_progress.py tests/verbs/test_progress_lost.py "
                         "tests/verbs/test_overlap.py", 59, 900),
    Suite("hostile", 2, "tests/verbs/test_hostile.py", 60, 900),
    Suite("memory", 2, "tests/verbs/test_memory.py", 61, 900),
    Suite("mpi4py", 2, "tests/mpi4py", 12, 400, before=source.ensure),
    Suite("failures", 2, "tests/verbs/test_failure.py tests/verbs/test_fork.py "
                         "tests/verbs/test_limits.py", 38, 900),
    Suite("collectives", 2, "tests/verbs/test_landing.py tests/verbs/test_nonblocking.py", 32,
          900),
    Suite("lacks", 2, "tests/verbs/test_shortage.py tests/verbs/test_flood.py "
                      "tests/verbs/test_finalize.py", 24, 900),
)


@pytest.mark.timeout(3600)  # the suite's own limit holds; a kernel may have to be built first
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suite(suite, lab, tmp_path, say):
    suite.before()

    def run(device):
        command = (f"python -m pytest -q -p no:cacheprovider --fabric {device}0 "
                   f"--junitxml=$LAB_OUT/report.xml {suite.arguments}")
        result = lab(command, nodes=suite.nodes, devices=(device,), limit=suite.limit,
                     out=tmp_path / device)
        if not result.panic:
            return result
        say(f"lab suite {suite.name} on {device}: THE GUEST'S KERNEL FELL after "
            f"{result.seconds:.1f} s, so it runs once more: {result.panic}")
        return lab(command, nodes=suite.nodes, devices=(device,), limit=suite.limit,
                   out=tmp_path / device)

    with ThreadPoolExecutor(len(DEVICES)) as pool:
        results = dict(zip(DEVICES, pool.map(run, DEVICES), strict=True))
    for device, result in results.items():
        last = (result.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")
        say(f"lab suite {suite.name} on {device}: {last} (with boot {result.seconds:.1f} s) ")
    for device, result in results.items():
        report = tmp_path / device / "report.xml"
        passed, skipped, failed = _outcomes(report) if report.exists() else (0, [], [])
        for text in failed:
            say(f"lab suite {suite.name} on {device}, FAILED: {text}")
        # What failed stands first: logs are cut at their end.
        whole = f"on {device}: {failed}\n{result.report()}"
        assert result.status == 0 and not failed, whole
        assert not skipped, f"on {device}: {skipped}\n{result.report()}"
        assert passed >= suite.least, whole


def test_each_file_for_devices_is_in_a_suite():
    here = {f"tests/verbs/{file.name}" for file in VERBS.glob("test_*.py")}
    assert here and here <= {word for suite in SUITES for word in suite.arguments.split()}


def _outcomes(report):
    """How many tests passed, the names of those that were skipped, and what failed and why."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    failed = []
    for case in cases:
        for fault in (*case.iter("failure"), *case.iter("error")):
            failed.append(f"{case.get('name')}: {fault.get('message', '')[:400]}")
    return len(cases) - len(skipped) - len(failed), skipped, failed
