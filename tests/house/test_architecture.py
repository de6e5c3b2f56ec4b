"""What ``docs/architecture.md`` says stands somewhere does stand there."""

import re

from tests.house import reading

PAGE = reading.ROOT / "docs" / "architecture.md"
PACKAGE = reading.SRC / "pyrdv"


def places(text):
    """Every `path:name` of the page."""
    return re.findall(r"`([\w/]+\.(?:pyx|pxd|py)):(\w+)`", text)


def missing(found, package=PACKAGE):
    """Those of `found` whose file has no definition of that name."""
    wrong = []
    for path, name in found:
        text = (package / path).read_text(encoding="utf-8") if (package / path).exists() else ""
        defined = rf"^\s*(?:async\s+)?(?:def|cdef|cpdef|class)\s[^\n=]*?\b{name}(?:\(|:)"
        defined += rf"|^{name} = "
        if not re.search(defined, text, re.MULTILINE):
            wrong.append(f"{path}:{name}")
    return wrong


def table(heading):
    """The rows of the table behind a heading, as lists of cells."""
    text = PAGE.read_text(encoding="utf-8").split(heading, 1)[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_places_exist():
    assert missing(places(PAGE.read_text(encoding="utf-8"))) == []


def test_questions_have_one_place_each():
    rows = table("## Where is …")
    assert len(rows) >= 20
    assert all(question.endswith("?") and len(places(answer)) == 1 for question, answer in rows)
    assert len({question for question, _ in rows}) == len(rows)


def test_the_path_is_in_places():
    rows = table("## The path of an `Isend`")
    assert len(rows) >= 10 and all(len(places(where)) == 1 for _, where, _ in rows)


def strangers(found, package=PACKAGE):
    """Those of `found` that no file of an earlier one names, and no table of functions holds."""
    wrong, before = [], ""
    for path, name in found:
        text = (package / path).read_text(encoding="utf-8")
        if before and not re.search(rf"\b{name}\b", before) \
                and not re.search(rf"^operations\.\S+ = {name}$", text, re.MULTILINE):
            wrong.append(name)
        before += text
    return wrong


def test_the_path_of_the_sender_leads_from_one_to_the_next():
    rows = table("## The path of an `Isend`")
    assert strangers([places(where)[0] for side, where, _ in rows if side == "sender"]) == []


def test_a_place_off_the_path_is_found(tmp_path):
    (tmp_path / "a.pyx").write_text("cdef int a(int e):\n    return b(e)\n")
    (tmp_path / "b.pyx").write_text(
        "cdef int b(int e):\n    pass\n\n\ncdef int c(int e):\n    pass\n\n\n"
        "cdef int d(int e):\n    pass\n\n\noperations.start = d\n")
    assert strangers([("a.pyx", "a"), ("b.pyx", "b")], tmp_path) == []
    assert strangers([("a.pyx", "a"), ("b.pyx", "d")], tmp_path) == []
    assert strangers([("a.pyx", "a"), ("b.pyx", "c")], tmp_path) == ["c"]


def test_a_place_that_is_not_there_is_found(tmp_path):
    (tmp_path / "a.pyx").write_text("cdef int there(int e) noexcept nogil:\n    gone(e)\n")
    assert missing([("a.pyx", "there"), ("a.pyx", "gone"), ("b.pyx", "there")], tmp_path) == [
        "a.pyx:gone", "b.pyx:there"]
