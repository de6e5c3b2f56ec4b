"""Breaks lines of Markdown that are too long: ``python -m tests.house.columns FILE...``.

Only prose and list items are touched, from their first long line on, and no word changes.  Tables,
fenced blocks and headings stay as they are.
"""

import re
import sys
from pathlib import Path

COLUMNS = 110
FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})")
ITEM = re.compile(r"\s*(?:[-+*]|\d+[.)]) +")
#: What would be more than a word at the start of a line.
MARKER = re.compile(r"(?:[-+*>=|]|\d+[.)])$|[#|>]|`{3}|:{3}|-{2}|={2}")
#: A word with what sticks to it; no line breaks within code, nor before a link's address.
WORD = re.compile(r"(?:`+[^`]*`+|\S)+")


def is_prose(line):
    """Whether a line outside fenced blocks may be broken."""
    return bool(line.strip()) and not line.lstrip().startswith(("|", "#", "<", "%", "("))


def lines_of(text):
    """Yield (number, line, whether it is prose) for each line of a document, from 1 on."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        inside = bool(fence or mark)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = ""
        yield number, line, is_prose(line) and not inside


def too_long(text):
    """Numbers of the lines of prose that are too long, but for those of a single word."""
    return [number for number, line, prose in lines_of(text)
            if prose and len(line) > COLUMNS and len(WORD.findall(ITEM.sub("", line))) > 1]


def broken(words, indents):
    """Lines made of `words`; `indents` are the beginnings of the first line and of the others."""
    lines, line = [], []
    for word in words:
        if line and len(indents[bool(lines)] + " ".join([*line, word])) > COLUMNS:
            carried = [word]
            while MARKER.match(carried[0]) and len(line) > 1:
                carried.insert(0, line.pop())
            lines.append(indents[bool(lines)] + " ".join(line))
            line = carried
        else:
            line.append(word)
    return [*lines, indents[bool(lines)] + " ".join(line)]


def reflowed(text):
    """The document with its long lines broken."""
    out, words, indents = [], [], None

    def end():
        nonlocal words
        if words:
            out.extend(broken(words, indents))
        words = []

    for _, line, prose in lines_of(text):
        item = ITEM.match(line)
        if not prose or item:
            end()
        if prose and (words or len(line) > COLUMNS):
            if not words:
                first = item[0] if item else re.match(r"\s*", line)[0]
                indents = (first, " " * len(first))
            words += WORD.findall(line[len(indents[0]):] if not words else line)
        else:
            out.append(line)
    end()
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(reflowed(path.read_text(encoding="utf-8")), encoding="utf-8")
