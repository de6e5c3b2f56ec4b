"""Lines of the documentation end in time; ``python -m tests.house.columns FILE...`` breaks them."""

import pytest

from tests.house import columns, reading

LONG = "A word that is `code of several words` and [a link](x.md) and - a dash, twelve times. " * 12


def test_lines_of_the_documentation_end_in_time():
    found = {}
    pages = reading.sources(".md", under="docs")
    assert len(pages) > 15
    for path in pages:
        if lines := columns.too_long(path.read_text(encoding="utf-8")):
            found[str(path.relative_to(reading.ROOT))] = lines
    assert found == {}


@pytest.mark.parametrize("line", [LONG, f"- {LONG}", f"    {LONG}", f"12. {LONG}"])
def test_long_lines_are_caught_and_broken(line):
    text = f"# A title\n\nBefore.\n{line}\nThe end.\n"
    assert columns.too_long(text) == [4]
    broken = columns.reflowed(text)
    assert columns.too_long(broken) == []
    assert broken.split() == text.split(), "no word changes"
    assert broken.startswith("# A title\n\nBefore.\n")
    assert columns.reflowed(broken) == broken
    rest = broken.splitlines()[4:]
    assert rest and all(one.count("`") % 2 == 0 for one in rest), "no line breaks within code"
    indent = len(line) - len(line.lstrip(" -12."))
    assert all(one.startswith(" " * indent) and one[indent] not in " -" for one in rest)


@pytest.mark.parametrize("text", [
    f"| {LONG} | a table |\n",
    f"# {LONG}\n",
    f"```\n{LONG}\n```\n",
    f"```{{include}} x\n\n{LONG}\n```\n",
    f"````\n```\n{LONG}\n````\n",
    f"https://{'x' * 200}\n",
    f"- `{'x ' * 100}`\n",
])
def test_tables_headings_and_code_stay(text):
    assert columns.too_long(text) == []


def test_prose_behind_a_fence_is_seen():
    assert columns.too_long(f"```\n{LONG}\n```\n\n{LONG}\n") == [5]
