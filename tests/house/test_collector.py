"""What an object still needs at its end, the garbage collector must not have taken away before.

The collector breaks a cycle by emptying its objects; their ``__dealloc__`` runs later and finds
None.  So a class whose end reads an object of its own says ``@cython.no_gc_clear`` (or ``no_gc``).
That does not help a list, dict or set: the collector empties it by itself.
"""

import re

import pytest

from tests.house import reading

CLASS = re.compile(r"^(?P<marks>(?:@[^\n]*\n)*)cdef class (?P<name>\w+)[^\n]*\n"
                   r"(?P<body>(?:[ \t]+[^\n]*\n|\n)*)", re.M)
END = re.compile(r"^    def __dealloc__\(self\):\n(?P<body>(?:        [^\n]*\n|\n)*)", re.M)
#: An attribute that is an object: its type is a class, which has a capital, or one of Python's.
OBJECT = re.compile(r"^    cdef (?:readonly |public )?(?:[\w.]+\.)?"
                    r"(?P<type>[A-Z]\w*|object|list|dict|set|tuple|bytes|bytearray|str) "
                    r"(?P<names>\w[^(\n]*)$", re.M)


def classes(text):
    """Name, decorators and body of each class of a ``.pyx`` or ``.pxd``."""
    return [(found["name"], found["marks"], found["body"]) for found in CLASS.finditer(text)]


def unguarded(source, contract):
    """``Class.attribute`` of each object that an end reads and the collector may take."""
    objects = {}
    for name, _marks, body in classes(source) + classes(contract):
        for declared in OBJECT.finditer(body):
            for attribute in re.findall(r"\w+", declared["names"].partition("#")[0]):
                objects[name, attribute] = declared["type"]
    found = []
    for name, marks, body in classes(source):
        end = END.search(body)
        read = sorted(set(re.findall(r"self\.(\w+)", end["body"]))) if end else ()
        for attribute in read:
            taken = ("list", "dict", "set") if "no_gc" in marks else objects.values()
            if objects.get((name, attribute)) in taken:
                found.append(f"{name}.{attribute}")
    return found


def test_ends_find_what_they_need():
    files = reading.sources(".pyx", under="src/pyrdv")
    assert any(END.search(path.read_text()) for path in files)
    bad = []
    for path in files:
        contract = path.with_suffix(".pxd")
        bad += [f"{path.name}: {which}" for which in unguarded(
            path.read_text(), contract.read_text() if contract.exists() else "")]
    assert bad == []


PLANTED = "{}cdef class Lake:\n    cdef {}\n\n    def __dealloc__(self):\n        dry(self.fish)\n"


@pytest.mark.parametrize("declared", ["list fish", "readonly Fish fish", "object pike, fish"])
def test_planted_end_is_caught(declared):
    assert unguarded(PLANTED.format("", declared), "") == ["Lake.fish"]
    contract = PLANTED.format("", declared).partition("\n\n")[0] + "\n"
    assert unguarded(PLANTED.format("", "int other"), contract) == ["Lake.fish"]


def test_lists_are_caught_even_when_guarded():
    assert unguarded(PLANTED.format("@cython.no_gc_clear\n", "list fish"), "") == ["Lake.fish"]


def test_guarded_ends_and_plain_memory_pass():
    assert unguarded(PLANTED.format("@cython.no_gc_clear   # late\n", "Fish fish"), "") == []
    assert unguarded(PLANTED.format("", "fish_t *fish"), "") == []
