"""What comes from outside is shown on one line, without controls."""

import pytest

from pyrdv.foreign import shown


@pytest.mark.parametrize(("given", "wanted"), [
    ("plain words, and ümläute", "plain words, and ümläute"),
    ("", ""),
    (b"", ""),
    (b"bytes", "bytes"),
    (memoryview(b"view"), "view"),
    ("a\nb\r\tc\0", r"a\nb\r\tc\x00"),
    ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
    (b"\xff\xfe", r"\xff\xfe"),
    ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
    ("\u202eevil", r"\u202eevil"),
    ("\udcff", r"\udcff"),
    ("back\\slash", "back\\slash"),
])
def test_shown(given, wanted):
    assert shown(given) == wanted
    assert shown(given).isprintable()
    assert shown(shown(given)) == wanted


@pytest.mark.parametrize("given", ["x" * 401, b"x" * 401, "\n" * 300, b"\xff" * 400, "ü" * 1000])
def test_a_long_text_is_cut_and_says_so(given):
    text = shown(given)
    assert len(text) == 400
    assert text.endswith("…")
    assert shown("x" * 400) == "x" * 400
    assert len(shown(given, 9)) == 9
