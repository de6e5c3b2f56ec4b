"""Reads the repository's own sources for the house tests: files, imports, functions.

Cython and C are read by patterns, not by a full parser.  The patterns rely on the style that the
linters enforce (one statement a line, C functions closed by a brace in the first column).
"""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

# Where git is not to be asked (an unpacked sdist), these are not sources.
_SKIP = {".git", "build", "dist", "_build", "_generated", "__pycache__", ".hypothesis",
         ".pytest_cache", ".ruff_cache", ".mypy_cache"}


class Edge(NamedTuple):
    """One import: the importing module, what it names, and where."""

    module: str
    target: str
    line: int


class Function(NamedTuple):
    """One function: its name, first line, and length in lines without its docstring."""

    name: str
    line: int
    length: int


def tracked():
    """Every file that is, or is about to be, under version control."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if asked.returncode == 0:
            paths = [ROOT / name for name in asked.stdout.splitlines()]
            return sorted(path for path in paths if path.is_file())
    found = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [
            name for name in below
            if name not in _SKIP and not name.startswith(".venv") and not name.endswith(".egg-info")
        ]
        found += [Path(folder, name) for name in names if not name.endswith((".so", ".pyc"))]
    return sorted(found)


def sources(*suffixes, under=""):
    """The tracked files below the folder `under` that end in one of `suffixes`."""
    base = ROOT / under
    return [path for path in tracked() if path.suffix in suffixes and base in path.parents]


def module_name(path, src=SRC):
    """Dotted name of the module that a file below `src` is or describes."""
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


_NOISE = re.compile(
    r'''"""(?:\\.|.)*?"""|\'\'\'(?:\\.|.)*?\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*''',
    re.DOTALL,
)


def bare(text):
    """`text` of a Cython file with docstrings and comments blanked, line numbers kept."""

    def blank(match):
        token = match.group()
        if token[0] == "#" or token[:3] in ('"""', "'''"):
            return "\n" * token.count("\n")
        return token

    return _NOISE.sub(blank, text)


# ------------------------------------------------------------------ imports


def _absolute(module, is_package, name, level):
    """The absolute form of a relative import of `name` inside `module`."""
    if not level:
        return name
    base = module.split(".")
    drop = level - 1 if is_package else level
    base = base[: len(base) - drop] if drop else base
    return ".".join([*base, name] if name else base)


def _from(module, is_package, line, name, level, members):
    base = _absolute(module, is_package, name, level)
    # `from a import b` may name the module a.b or something inside a; the caller decides.
    return [Edge(module, f"{base}:{member}", line) for member in members]


def python_imports(module, text, is_package=False):
    """Imports of a ``.py`` or ``.pyi``, those inside functions and import_module included."""
    edges = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            edges += [Edge(module, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            members = [alias.name for alias in node.names]
            edges += _from(module, is_package, node.lineno, node.module or "", node.level, members)
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            if called in ("import_module", "__import__") and isinstance(first, ast.Constant):
                edges.append(Edge(module, str(first.value), node.lineno))
    return edges


_FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+c?import\b[ \t]*(\([^)]*\)|[^\n;]*)", re.M)
_PLAIN = re.compile(r"^[ \t]*c?import[ \t]+([^\n;(]+)", re.M)
_EXTERN = re.compile(r"""^[ \t]*cdef[ \t]+extern[ \t]+from[ \t]+["'](<?[^"']+>?)["']""", re.M)
_INCLUDE_PYX = re.compile(r"""^[ \t]*include[ \t]+["']([^"']+)["']""", re.M)
_INCLUDE_C = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*([<"][^>"]+[>"])""", re.M)


def _line(text, offset):
    return text.count("\n", 0, offset) + 1


def cython_imports(module, text, is_package=False):
    """``import`` and ``cimport`` of a ``.pyx`` or ``.pxd``."""
    text = re.sub(r"\\\n", "  ", bare(text))
    edges = []
    for match in _FROM.finditer(text):
        listed = match.group(3).strip("() \t\n")
        members = [part.split()[0] for part in listed.split(",") if part.split()]
        line = _line(text, match.start())
        edges += _from(module, is_package, line, match.group(2), len(match.group(1)), members)
    for match in _PLAIN.finditer(text):
        for part in match.group(1).split(","):
            edges.append(Edge(module, part.split()[0], _line(text, match.start())))
    return edges


def externs(module, text):
    """C headers that a Cython file names."""
    text = bare(text)
    return [
        Edge(module, match.group(1).strip("<>"), _line(text, match.start()))
        for match in _EXTERN.finditer(text)
    ]


def cython_includes(module, text):
    """Files that a Cython file pastes with ``include``."""
    text = bare(text)
    return [Edge(module, m.group(1), _line(text, m.start())) for m in _INCLUDE_PYX.finditer(text)]


def c_includes(name, text):
    """``#include`` lines of a C file, with their brackets or quotes."""
    return [Edge(name, m.group(1), _line(text, m.start())) for m in _INCLUDE_C.finditer(text)]


def imports(path):
    """Python-level and C-level imports of one file below src/pyrdv."""
    text = path.read_text(encoding="utf-8")
    read = python_imports if path.suffix in (".py", ".pyi") else cython_imports
    return read(module_name(path), text, path.stem == "__init__")


# ---------------------------------------------------------------- functions


def python_functions(text):
    """Functions of a ``.py``; one inside another counts in both."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                length -= first.end_lineno - first.lineno + 1
            found.append(Function(node.name, node.lineno, length))
    return found


_HEAD = re.compile(r"^([ \t]*)(?:async[ \t]+def|def|cpdef|cdef)\b[^\n(=]*?(\w+)[ \t]*\(")
_NOT_A_FUNCTION = re.compile(
    r"^[ \t]*cdef[ \t]+(?:packed[ \t]+)?(?:class|struct|enum|union|extern)\b"
)


def _head_end(lines, start):
    """Index of the last line of the statement that starts at `start`."""
    depth = 0
    for index in range(start, len(lines)):
        depth += sum((c in "([{") - (c in ")]}") for c in lines[index])
        if depth <= 0 and not lines[index].endswith("\\"):
            return index
    return len(lines) - 1


def cython_functions(text):
    """Functions of a ``.pyx`` or ``.pxd`` that have a body."""
    lines = [line.rstrip() for line in bare(text).split("\n")]
    original = text.split("\n")
    found = []
    for start, line in enumerate(lines):
        head = _HEAD.match(line)
        if head is None or _NOT_A_FUNCTION.match(line):
            continue
        end = _head_end(lines, start)
        if not lines[end].endswith(":"):
            continue
        indent = len(head.group(1))
        last = end
        docstring = 0
        for index in range(end + 1, len(lines)):
            code = lines[index]
            if code and len(code) - len(code.lstrip()) <= indent:
                break
            if code or original[index].strip().startswith("#"):
                last = index
        # The blanked docstring is what lies before the first line of code and is no comment.
        for index in range(end + 1, last + 1):
            if lines[index] or original[index].strip().startswith("#"):
                break
            docstring += 1
        found.append(Function(head.group(2), start + 1, last - start + 1 - docstring))
    return found


_C_NOISE = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#[^\n]*""",
    re.DOTALL | re.MULTILINE,
)
_C_HEAD = re.compile(r"^[A-Za-z_][^;={}]*?\b(\w+)[ \t]*\([^;{}]*\)[^;{}()=]*\{", re.MULTILINE)


def c_functions(text):
    """Functions of a C file, from the line that begins them to their closing brace."""
    text = _C_NOISE.sub(lambda match: "\n" * match.group().count("\n"), text)
    found = []
    position = 0
    while head := _C_HEAD.search(text, position):
        position, depth = head.end(), 1
        while depth and position < len(text):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            position += 1
        length = text.count("\n", head.start(), position) + 1
        found.append(Function(head.group(1), _line(text, head.start()), length))
    return found
