"""Tracebacks pass in one piece, all else at once (pyrdv.launch.tracebacks)."""

import pytest

from pyrdv.launch.events import Loop
from pyrdv.launch.tracebacks import MOST, Tracebacks

SIMPLE = (b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
          b"    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero\n")
CHAIN = (SIMPLE + b"\nThe above exception was the direct cause of the following exception:\n\n"
         + SIMPLE)
GROUP = (b"  + Exception Group Traceback (most recent call last):\n"
         b'  |   File "a.py", line 1, in <module>\n  | ExceptionGroup: x (1 sub-exception)\n'
         b"  +-+---------------- 1 ----------------\n    | ValueError: y\n"
         b"    +------------------------------------\n")
SYNTAX = b'  File "a.py", line 1\n    )\n    ^\nSyntaxError: unmatched \')\'\n'
FATAL = (b"Fatal Python error: Segmentation fault\n\n"
         b"Current thread 0x7f (most recent call first):\n"
         b'  File "a.py", line 3 in f\n')


class Outlet:
    """Keeps what passed, piece by piece."""

    def __init__(self):
        self.loop = Loop()
        self.pieces = []
        self.held = Tracebacks(self.loop, self.pieces.append)

    def until_passed(self):
        while not self.pieces:
            self.loop.turn()


@pytest.mark.parametrize("text", [
    SIMPLE, CHAIN, SYNTAX, FATAL, GROUP, b"Exception in thread Thread-1 (f):\n" + SIMPLE,
    SIMPLE + b"second line of the text\n"])
def test_one_piece(text):
    """Line by line, with ordinary lines before."""
    out = Outlet()
    out.held.feed(b"before\n")
    assert out.pieces.pop() == b"before\n"
    for line in text.splitlines(keepends=True):
        out.held.feed(line)
    assert out.pieces == []
    out.until_passed()
    assert out.pieces == [text]
    out.pieces.clear()
    out.held.feed(b"behind\n")
    assert out.pieces == [b"behind\n"]


def test_the_end_of_a_rank_is_not_waited_for():
    out = Outlet()
    out.held.feed(b"before\n" + SIMPLE[:70])
    assert out.pieces == [b"before\n"]
    out.held.flush()
    out.held.flush()
    assert b"".join(out.pieces) == b"before\n" + SIMPLE[:70] and out.loop._timers == []


def test_what_is_no_traceback_passes_at_once():
    for text in (b"x" * 1000, b"a Traceback (most recent call last):\n", b"\n\n", b"  indented\n",
                 b"a.py:3: UserWarning: x\n  warn()\n"):
        out = Outlet()
        out.held.feed(text)
        assert out.pieces == [text]


def test_memory_is_bounded():
    out = Outlet()
    line = b'  File "a.py", line 1, in f\n'
    out.held.feed(b"Traceback (most recent call last):\n")
    for _ in range(MOST // len(line) + 1):
        out.held.feed(line)
    assert len(out.pieces) == 1 and len(out.pieces[0]) > MOST
    assert len(out.pieces[0]) < MOST + 2 * len(line)


def test_tracebacks_of_ranks_do_not_mix(jobs):
    """Three ranks that write theirs slowly and at the same time, and one that goes on."""
    _, _, err = jobs.run("""
        import traceback
        client = join(); client.exchange(b"")
        def deep(n):
            if n: deep(n - 1)
            raise ValueError(launch.rank)
        try: deep(3)
        except ValueError: text = traceback.format_exc()
        for line in text.splitlines(keepends=True):
            os.write(2, line.encode())
            client.exchange(b"")
        print(f"on {launch.rank}", file=sys.stderr)
        client.leave()
        """, 3, "-l")
    lines = err.splitlines()
    begins = [number for number, line in enumerate(lines) if "Traceback" in line]
    ends = [number for number, line in enumerate(lines) if "ValueError: " in line]
    assert len(begins) == len(ends) == 3
    for begin, end in zip(begins, ends, strict=True):
        assert len({line[:3] for line in lines[begin:end + 1]}) == 1, err
    assert sorted(line[4:] for line in lines if " on " in line) == ["on 0", "on 1", "on 2"]
