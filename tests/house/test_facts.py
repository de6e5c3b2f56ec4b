"""A fact has one home: where a code has a name, the name is written."""

import re

import pytest

from pyrdv import errors
from tests.house import reading

# A result of an operation, of a call or of the system, as a bare number.  Zero is success.
BARE = re.compile(r"\b(?:failure|from_status)\(\s*[0-9]"
                  r"|\b(?:error|state|status)\)? (?:==|!=|in|not in) \(?-?[1-9]")


def bare_codes(text):
    """The lines of a Cython source in which a code is a number."""
    return [line.strip() for line in text.splitlines() if BARE.search(line.partition("#")[0])]


def test_codes_are_written_by_name():
    found = {}
    for path in reading.sources(".pyx", ".pxd", under="src/pyrdv"):
        if lines := bare_codes(path.read_text(encoding="utf-8")):
            found[str(path.relative_to(reading.ROOT))] = lines
    assert found == {}


@pytest.mark.parametrize("line", [
    "        if error == 3:",
    "        if op.error != 19:  # ENODEV",
    "            raise self.comm.failure(4, self.source, self.tag, size, size)",
    "            raise from_status(8, what=text)",
    "            if glance8(&peer.state) in (2, 3):",
])
def test_planted_number_is_caught(line):
    assert bare_codes(line) == [line.strip()]


@pytest.mark.parametrize("line", [
    "        if error == OP_CANCELLED:",
    "        if op.error == 0:",
    "            raise from_status(OP_FINALIZED, what=text)    # error == 8",
])
def test_names_and_zero_pass(line):
    assert bare_codes(line) == []


def numbers(path, pattern):
    """Constants of a declaration by what `pattern` leaves of their names."""
    text = (reading.SRC / "pyrdv" / path).read_text(encoding="utf-8")
    return {name: int(number)
            for name, number in re.findall(rf"^    {pattern} = (\d+)", text, re.MULTILINE)}


def test_exceptions_know_the_codes_of_the_engine():
    """`errors` is plain Python, without the engine: the two lists are one fact in two languages."""
    engine = numbers("engine/state.pxd", r"OP_(\w+)")
    engine |= numbers("api/core.pxd", r"(MET_\w+)")
    known = {name.removeprefix("STATUS_"): value for name, value in vars(errors).items()
             if name.startswith("STATUS_")}
    assert len(known) >= 10
    assert {name: engine.get(name) for name in known} == known
