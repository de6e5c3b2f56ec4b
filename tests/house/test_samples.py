"""Every code sample of the documentation runs: it is a file of examples/, or runs by itself."""

import re
import subprocess
import sys

import pytest

from tests.house import reading

EXAMPLES = reading.ROOT / "examples"

# What each example prints, in the order of sorted lines, on how many ranks.
PRINTED = {
    "exchange": (2, ["rank 0 computed 499500", "rank 1 received 1000000 numbers, the last 999999"]),
    "ring": (4, [f"rank {rank} of 4 got {(rank - 1) % 4}" for rank in range(4)]),
    "objects": (2, ["3 45", "tag 2 from rank 0: done"]),
    "awaiting": (2, ["nobody sent tag 9: the receive was withdrawn", "rank 1 is done",
                     "received 499500"]),
    "registered": (2, ["rank 0 has 200000 numbers", "rank 0 received 1", "rank 0 received 1",
                       "rank 1 has 200000 numbers", "rank 1 received 0", "rank 1 received 2"]),
    "losing_a_peer": (3, ["rank 1: it has finished", "rank 2 says hello"]),
}
# Programs with tests of their own.
TESTED_ELSEWHERE = {"compress", "overlap", "treetar"}


def run(size, *program, cwd=reading.ROOT):
    command = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", str(size), "--timeout", "120"]
    done = subprocess.run([*command, *map(str, program)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_it_says(name):
    size, lines = PRINTED[name]
    assert run(size, EXAMPLES / f"{name}.py") == lines


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PRINTED, *TESTED_ELSEWHERE}
    assert all((reading.ROOT / "tests" / "examples" / f"test_{name}.py").exists()
               for name in TESTED_ELSEWHERE - {"treetar"})


def pages():
    return [reading.ROOT / "README.md", *reading.sources(".md", under="docs")]


def python_blocks(text):
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def test_blocks_are_examples_or_run(tmp_path):
    whole = [path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")]
    seen = 0
    for page in pages():
        for block in python_blocks(page.read_text(encoding="utf-8")):
            seen += 1
            if not any(block in text for text in whole):
                program = tmp_path / "block.py"
                program.write_text(block, encoding="utf-8")
                run(2, program)
    assert seen >= 2


def test_included_files_exist():
    included = []
    for page in reading.sources(".md", under="docs"):
        text = page.read_text(encoding="utf-8")
        included += [page.parent / name
                     for name in re.findall(r"^```\{literalinclude\} (\S+)", text, re.M)]
    assert len(included) >= 4
    assert [str(path) for path in included if not path.is_file()] == []
