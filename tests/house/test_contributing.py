"""Every path that ``CONTRIBUTING.md`` names exists."""

import re

from tests.house import reading

PAGE = reading.ROOT / "CONTRIBUTING.md"
SUFFIXES = (".md", ".py", ".pyi", ".pxd", ".pyx", ".sh", ".toml")


def paths(text):
    """Every path of a page: what stands in single backticks, and has a slash or a suffix."""
    words = re.findall(r"(?<!`)`([\w.-]+(?:/[\w.-]+)*/?)`(?!`)", text)
    return [word for word in words
            if ("/" in word or word.endswith(SUFFIXES) and word not in SUFFIXES)
            and "NAME" not in word]          # a placeholder


def missing(found):
    """Those of `found` that are nowhere below the root, the package or, a bare name, anywhere."""
    names = {path.name for path in reading.tracked()}
    return [path for path in found if not (path in names or any(
        (base / (path + suffix)).exists()
        for base in (reading.ROOT, reading.SRC / "pyrdv") for suffix in ("", ".pyx", ".py")))]


def test_the_paths_exist():
    found = paths(PAGE.read_text(encoding="utf-8"))
    assert len(found) >= 25 and missing(found) == []


def test_a_path_that_is_not_there_is_found():
    text = "`engine/step.pyx`, `engine/gone.pxd`, `gone.py`, ``code/x``, `.pyx`, `tests/`, `word`"
    assert paths(text) == ["engine/step.pyx", "engine/gone.pxd", "gone.py", "tests/"]
    assert missing(paths(text)) == ["engine/gone.pxd", "gone.py"]
