"""What may run inside a step (R1), and that engines share nothing (R2).

The sources are read by patterns (`reading`).  A function is known by its module and its name.  From
each root, every function that a body names is followed, called or not: so one that is passed on as
a pointer is followed, too.  Roots are ``step`` and whatever is put into a table of functions, but
for the fields that the contract of the table marks ``call.``
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCES = Path(__file__).parents[2] / "src"
PACKAGE = SOURCES / "pyrdv"

# The contracts of the tables; in those of `STEP_BY_DEFAULT` a field is step-safe unless marked.
CONTRACTS = ("fabrics/contract.pxd", "engine/protocols/contract.pxd", "engine/state.pxd",
             "memory/mappings.pxd")
STEP_BY_DEFAULT = ("engine/protocols/contract.pxd", "engine/state.pxd")
FABRICS = {"shm": "fabrics.shm", "sim": "instruments.sim", "verbs": "fabrics.verbs"}
# At least so many functions are reached; fewer: the reading is broken.
LEAST = {"engine": 100, "shm": 20, "sim": 12, "verbs": 25}

FORBIDDEN = {"malloc", "calloc", "realloc", "free", "PyMem_Malloc", "PyMem_Calloc", "PyMem_Free",
             "memory_new", "epoll_wait", "usleep", "nanosleep", "sched_yield",
             "pthread_mutex_lock", "engine_lock", "mmap", "munmap", "open", "close", "accept4",
             "connect"}
# Of the libraries for RDMA; all others may allocate, wait, or take their locks.
LIBRARY = {"ibv_get_cq_event"}
# In the engine the fabric's operations are the only way to the system.
SYSTEM = {"poll", "read", "write", "recv", "send", "sendmsg", "recvmsg", "ioctl"}
# What is for calls wants a `call_t`, so its declaration says so.  A step that may run within a call
# asks for that, and leaves the rest to the next one if there is none.
CALL_ONLY = re.compile(r"\(call_t \*")
ASKS = re.compile(r"cdef call_t \*call = call_running\(e\)\n(?:.*\n)*?\s+if call == NULL:\n"
                  r"\s+peer_call\(e, p\)\n\s+return ")
# Tables that are filled once, at import.
CONSTANT = {"CALLS", "OPS", "MODES", "TABLE", "operations", "table", "tried"}

HEAD = re.compile(r"^cdef\s+(?:inline\s+)?[\w\s*]*?\b(\w+)\s*\(", re.MULTILINE)
IMPORT = re.compile(r"^from (pyrdv[\w.]*) cimport (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
ENTRY = re.compile(r"^ *\w+(?:\.kinds\[\d+\])?\.(\w+) = (\w+)$", re.MULTILINE)
FIELD = re.compile(r"\(\*(\w+)\)\(")
WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
CALLED = re.compile(r"(?<![.\w])(\w+)\s*\(")
OF_LIBRARY = re.compile(r"\blib\.(\w+)\s*\(")


class Function(NamedTuple):
    """Where it stands, its declaration, and its body without strings and comments."""

    module: str
    name: str
    head: str
    body: str


class Sources:
    """Every C function of some Cython files, and what each module imports."""

    def __init__(self, paths, base):
        self.functions = {}
        self.imports = {}
        self.entries = []
        for path in paths:
            module = ".".join(path.relative_to(base).with_suffix("").parts)
            self._read(module, path.read_text(encoding="utf-8"))

    def _read(self, module, text):
        for match in IMPORT.finditer(text):
            for name in re.split(r",\s*", (match[2] or match[3]).strip().rstrip(",")):
                there, _, here = name.strip().partition(" as ")
                self.imports[module, here or there] = (match[1], there)
        self.entries += [(module, *match.groups()) for match in ENTRY.finditer(text)]
        for match in HEAD.finditer(text):
            end = re.compile(r"^(?=\S)", re.MULTILINE).search(text, text.index("\n", match.start()))
            whole = text[match.start():end.start() if end else len(text)]
            # A declaration goes on to the colon that ends it; one without is of a `.pxd`.
            head = re.match(r"(?s).*?\)[^()]*?:\s*\n", whole)
            if head:
                body = re.sub(r'(?s)"""(.*?)"""|#[^\n]*', "", whole[head.end():])
                self.functions[module, match[1]] = Function(module, match[1], head[0], body)

    def find(self, module, name):
        """The function that `module` means by `name`, or None."""
        seen = set()
        while (module, name) not in self.functions:
            if (module, name) in seen or (module, name) not in self.imports:
                return None
            seen.add((module, name))
            module, name = self.imports[module, name]
        return self.functions[module, name]

    def reachable(self, roots):
        """All functions that those of `roots` name, directly or not; those for calls apart."""
        found, todo = {}, list(roots)
        while todo:
            function = todo.pop()
            if CALL_ONLY.search(function.head) or (function.module, function.name) in found:
                continue
            found[function.module, function.name] = function
            named = (self.find(function.module, word) for word in WORD.findall(function.body))
            todo += [other for other in named if other is not None]
        return list(found.values())

    def breaches(self, roots, forbidden):
        """What functions reachable from `roots` do that a step must not."""
        wrong = []
        for function in self.reachable(roots):
            where = f"{function.module}:{function.name}"
            if "noexcept nogil" not in function.head:
                wrong.append(f"{where} is not noexcept nogil")
            if "with gil" in function.body:
                wrong.append(f"{where} takes the GIL")
            wrong += [f"{where} calls {name}"
                      for name in set(CALLED.findall(function.body)) & forbidden]
            wrong += [f"{where} calls {name} of a library"
                      for name in set(OF_LIBRARY.findall(function.body)) - LIBRARY]
            wrong += [f"{where} calls {name} without asking for a call"
                      for name in self.for_calls(function)
                      if not ASKS.search(function.body.split(name)[0])]
        return sorted(wrong)

    def for_calls(self, function):
        """What `function` names that is for calls."""
        found = {word: self.find(function.module, word) for word in WORD.findall(function.body)}
        return [word for word, other in found.items()
                if other is not None and CALL_ONLY.search(other.head)]


def step_fields():
    """The fields of tables whose functions a step may call."""
    fields = {}
    for name in CONTRACTS:
        comment = ""
        for line in (PACKAGE / name).read_text(encoding="utf-8").splitlines():
            field = FIELD.search(line)
            if field:
                default = "step" if name in STEP_BY_DEFAULT else "call"
                marked = re.match(r"(step|call)\.", comment)
                kind = marked[1] if marked else default
                assert fields.setdefault(field[1], kind) == kind, f"{field[1]} is step and call"
            if line.strip().startswith("#"):
                comment += line.strip(" #*") + " "
            elif not line.startswith(" " * 9):
                comment = ""
    return {field for field, kind in fields.items() if kind == "step"}


@pytest.fixture(scope="module")
def product():
    return Sources(sorted(PACKAGE.rglob("*.p[yx][xd]")), SOURCES)


def roots_of(product, part):
    """What a step of the engine, or a fabric's step operation, begins with."""
    under = "pyrdv.engine." if part == "engine" else f"pyrdv.{FABRICS[part]}."
    roots = [product.find(module, name) for module, field, name in product.entries
             if module.startswith(under) and field in step_fields()]
    if part == "engine":
        roots.append(product.find("pyrdv.engine.step", "step"))
    return [root for root in roots if root is not None]


@pytest.mark.parametrize("part", ["engine", *FABRICS])
def test_steps_neither_allocate_nor_block(product, part):
    """R1: from each step operation down: noexcept, nogil, no allocation, no lock, no waiting."""
    roots = roots_of(product, part)
    assert len(product.reachable(roots)) >= LEAST[part]
    forbidden = FORBIDDEN | SYSTEM if part == "engine" else FORBIDDEN
    assert product.breaches(roots, forbidden) == []


def test_a_signal_handler_neither_allocates_nor_blocks(product):
    """Nor does it take a lock, but by trying; it may ring for sleepers."""
    handler = product.find("pyrdv.progress.parasite", "beat")
    names = {function.name for function in product.reachable([handler])}
    assert {"step", "step_alone", "call_sleepers", "needs", "arm", "watch_fabrics"} <= names
    assert product.breaches([handler], FORBIDDEN) == []


def test_tables_are_roots(product):
    """Every function in a table of the engine is found, and those for calls are told apart."""
    assert {"post", "poll", "release", "deregister", "arrived", "start", "serve", "ended",
            "deliver", "owed", "may_offer", "find"} <= step_fields()
    assert not {"register_memory", "connect", "maintain", "act"} & step_fields()
    names = {root.name for root in roots_of(product, "engine")}
    assert {"step", "eager_arrived", "chunk_arrived", "get_serve", "put_ended", "placed_deliver",
            "credit_owed", "indexed_find", "classic_answered", "device_deregister"} <= names
    for fabric in FABRICS:
        assert {root.name for root in roots_of(product, fabric)} == {
            f"{fabric}_{name}"
            for name in ("post", "poll", "release", "deregister", "watch", "signals")}


# Each is a hole that the reading could have, and a violation that must be found through it.
PLANTED = {
    "called": {"bad.pyx": "cdef int step(int e) noexcept nogil:\n    free(NULL)\n    return 0\n"},
    "called by what is called": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    deeper(e)\n    return 0\n\n\n"
        "cdef void deeper(int e) noexcept nogil:\n    free(NULL)\n")},
    "of a library": {"bad.pyx": (
        "cdef int step(int f) noexcept nogil:\n    f.lib.ibv_ack_cq_events(f.cq, 1)\n"
        "    return 0\n")},
    "may raise": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    lax(e)\n    return 0\n\n\n"
        "cdef void lax(int e) except *:\n    pass\n")},
    "takes the GIL": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    with gil:\n        pass\n    return 0\n")},
    "gets a call from somewhere": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    joins(e.call)\n    return 0\n\n\n"
        "cdef int joins(call_t *call) noexcept nogil:\n    return 0\n")},
    "does not look whether there is a call": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    cdef call_t *call = call_running(e)\n"
        "    joins(call)\n    return 0\n\n\n"
        "cdef int joins(call_t *call) noexcept nogil:\n    return 0\n")},
    "takes a call along": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    return later(e)\n\n\n"
        "cdef int later(int e) noexcept nogil:\n    cdef call_t *call = call_running(e)\n"
        "    if joins(call):\n        peer_call(e, p)\n    return 0\n\n\n"
        "cdef int joins(call_t *call) noexcept nogil:\n    return 0\n")},
    "another file's function of the same name": {
        "good.pyx": "cdef void take(int e) noexcept nogil:\n    pass\n",
        "evil.pyx": "cdef void take(int e) noexcept nogil:\n    free(NULL)\n",
        "bad.pyx": ("from pyrdv.evil cimport take\n\n\n"
                    "cdef int step(int e) noexcept nogil:\n    take(e)\n    return 0\n")},
    "under another name": {
        "evil.pyx": "cdef void take(int e) noexcept nogil:\n    free(NULL)\n",
        "bad.pyx": ("from pyrdv.evil cimport (\n    other, take as grasp)\n\n\n"
                    "cdef int step(int e) noexcept nogil:\n    grasp(e)\n    return 0\n")},
    "inline in a declaration": {
        "evil.pxd": "cdef inline void take(int e) noexcept nogil:\n    free(NULL)\n",
        "bad.pyx": ("from pyrdv.evil cimport take\n\n\n"
                    "cdef int step(int e) noexcept nogil:\n    take(e)\n    return 0\n")},
    "passed on": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    each(e, compare)\n    return 0\n\n\n"
        "cdef int compare(int e) noexcept nogil:\n    free(NULL)\n    return 0\n")},
    "a declaration of several lines": {"bad.pyx": (
        "cdef int step(int e,\n              int f) noexcept nogil:\n    free(NULL)\n"
        "    return 0\n")},
    "in a table": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    return 0\n\n\n"
        "cdef int other(int e) noexcept nogil:\n    free(NULL)\n    return 0\n\n\n"
        "operations.kinds[1].arrived = other\n")},
    "in a table that a function fills": {"bad.pyx": (
        "cdef int step(int e) noexcept nogil:\n    return 0\n\n\n"
        "cdef void other(int e) noexcept nogil:\n    free(NULL)\n\n\n"
        "cdef void cache_open(int e) noexcept nogil:\n    device.deregister = other\n")},
}


@pytest.mark.parametrize("hole", PLANTED)
def test_planted_breaches_are_found(tmp_path, hole):
    paths = [tmp_path / "pyrdv" / name for name in PLANTED[hole]]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_text(PLANTED[hole][path.name])
    planted = Sources(paths, tmp_path)
    roots = [planted.find("pyrdv.bad", "step")]
    roots += [planted.find(module, name) for module, field, name in planted.entries
              if field in step_fields()]
    assert len(planted.breaches(roots, FORBIDDEN)) == 1


def test_what_is_not_reached_is_not_judged(tmp_path):
    """Comments, doc strings and members are no calls; nor is a namesake elsewhere."""
    (tmp_path / "pyrdv").mkdir()
    (tmp_path / "pyrdv" / "other.pyx").write_text(
        "cdef void take(int e) noexcept nogil:\n    free(NULL)\n")
    (tmp_path / "pyrdv" / "bad.pyx").write_text(
        "cdef int step(int e) noexcept nogil:\n    \"\"\"Not free(x).\"\"\"\n    # Not free(x).\n"
        "    e.ops.free(e)\n    take(e)\n    return 0\n\n\n"
        "cdef void take(int e) noexcept nogil:\n    pass\n")
    planted = Sources(sorted((tmp_path / "pyrdv").iterdir()), tmp_path)
    assert planted.breaches([planted.find("pyrdv.bad", "step")], FORBIDDEN) == []


def shared_state(paths):
    """Variables at module level that are not constants, with their file."""
    pattern = re.compile(r"^cdef\s+(?!class|enum|struct|extern|inline|packed|union)"
                         r"([\w\s*\[\]]+?)\s+(\w+)\s*(?:=.*)?$", re.MULTILINE)
    return sorted(f"{path.name}: {match.group(2)}" for path in paths
                  for match in pattern.finditer(path.read_text(encoding="utf-8")))


def test_engines_and_fabrics_keep_no_state_of_their_module():
    """R2: tests run many engines in one process; what a module holds is filled once, at import."""
    paths = [*sorted((PACKAGE / "engine").rglob("*.pyx")),
             *(path for folder in ("fabrics", "instruments")
               for path in sorted((PACKAGE / folder).glob("*/*.pyx")))]
    assert [entry for entry in shared_state(paths)
            if entry.split(": ")[1] not in CONSTANT] == []


def test_planted_state_is_found(tmp_path):
    bad = tmp_path / "bad.pyx"
    bad.write_text("cdef int counter = 0\ncdef fabric_ops OPS\n")
    assert shared_state([bad]) == ["bad.pyx: OPS", "bad.pyx: counter"]
