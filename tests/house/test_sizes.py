"""Files up to 500 lines, functions up to 60 (docstrings not counted): beyond, it is two ideas."""

import pytest

from tests.house import reading

FILE_LINES = 500
FUNCTION_LINES = 60

# "path" or "path:function" and the reason why it may be longer.
EXCEPTIONS: dict[str, str] = {}

READERS = {
    ".py": reading.python_functions,
    ".pyx": reading.cython_functions,
    ".pxd": reading.cython_functions,
    ".c": reading.c_functions,
    ".h": reading.c_functions,
}
SUFFIXES = (*READERS, ".pyi", ".sh")


def complaints(name, suffix, text):
    """What is too long in one file, as {"path" or "path:function": lines}."""
    found = {}
    lines = text.count("\n")
    if lines > FILE_LINES:
        found[name] = lines
    for function in READERS[suffix](text) if suffix in READERS else ():
        if function.length > FUNCTION_LINES:
            found[f"{name}:{function.name}"] = function.length
    return found


def everything():
    found = {}
    for path in reading.sources(*SUFFIXES):
        name = str(path.relative_to(reading.ROOT))
        found |= complaints(name, path.suffix, path.read_text(encoding="utf-8"))
    return found


def test_nothing_is_too_long():
    found = everything()
    assert {name: size for name, size in found.items() if name not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(found), "an exception that is no longer needed"


def test_functions_are_seen():
    seen = 0
    for path in reading.sources(".pyx", under="src"):
        seen += len(reading.cython_functions(path.read_text(encoding="utf-8")))
    assert seen > 10


BODY = "    x = 1\n"


@pytest.mark.parametrize("suffix, head", [
    (".py", "def f(a):\n"),
    (".py", "async def f(a):\n"),
    (".pyx", "def f(a):\n"),
    (".pyx", "cpdef object f(object a):\n"),
    (".pyx", "cdef int f(\n    int a, int b,\n) noexcept nogil:\n"),
    (".pyx", "cdef inline unsigned long *f(int a) except? NULL:\n"),
    (".c", "static int f(int a)\n{\n"),
    (".h", "static inline int *f(int a) {\n"),
])
def test_planted_long_function_is_caught(suffix, head):
    tail = "}\n" if suffix in (".c", ".h") else "\n\nx = 2\n"
    long = complaints("f", suffix, head + BODY * FUNCTION_LINES + tail)
    assert list(long) == ["f:f"]
    assert not complaints("f", suffix, head + BODY * 40 + tail)


@pytest.mark.parametrize("suffix", [".py", ".pyx"])
def test_docstring_does_not_count(suffix):
    text = 'def f(a):\n    """One\n' + "\n    more\n" * 40 + '    """\n' + BODY * 30
    (function,) = READERS[suffix](text)
    assert function.length == 31


def test_method_ends_where_the_next_begins():
    text = "cdef class A:\n    cdef int f(self):\n" + 8 * ("    " + BODY) + "\n    def g(self):\n"
    text += 3 * ("    " + BODY) + "\ncdef int x = f(3)\n"
    assert [(f.name, f.length) for f in reading.cython_functions(text)] == [("f", 9), ("g", 4)]


def test_c_functions_are_told_apart():
    text = (
        "#define F(x) (x)\n/* int no(void) { */\nint declared(int a,\n             int b);\n"
        "static int g(int a) { return a; }\nstruct s {\n    int x;\n};\n"
        "static inline void *h(int a,\n                     int b)\n{\n    if (a) {\n"
        "        f(\"}\");\n    }\n    return 0;\n}\nint k(void)\n{\n    return 1;\n}\n"
    )
    found = [(f.name, f.line, f.length) for f in reading.c_functions(text)]
    assert found == [("g", 5, 1), ("h", 9, 8), ("k", 17, 4)]


def test_planted_long_file_is_caught():
    assert complaints("f", ".pyi", "x: int\n" * (FILE_LINES + 1)) == {"f": FILE_LINES + 1}
