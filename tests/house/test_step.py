"""What may run inside a step (R1), and that engines share nothing (R2)."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "pyrdv"
ENGINE = [*sorted((SOURCES / "engine").glob("*.pyx")),
          *sorted((SOURCES / "engine" / "protocols").glob("*.pyx")),
          *sorted((SOURCES / "engine" / "speculation").glob("*.pyx"))]
FABRICS = [*sorted((SOURCES / "fabrics").glob("*/*.pyx"))]

# The operations that the contract marks `step`, per fabric, and the engine's own; what it calls
# through a table of functions stands here too.
ROOTS = {
    "engine": ["step", "indexed_may_offer", "indexed_arrived", "indexed_find",
               "indexed_announced", "classic_may_offer", "classic_met", "classic_arrived",
               "classic_find", "classic_advice", "classic_announced", "classic_answered"],
    "shm": ["shm_post", "shm_poll", "shm_release", "shm_deregister"],
    "sim": ["sim_post", "sim_poll", "sim_release", "sim_deregister"],
    "verbs": ["verbs_post", "verbs_poll", "verbs_release", "verbs_deregister"],
    "memory": ["cache_give", "cache_name", "cache_unname"],
}
# Other parts are larger.
LEAST = {"memory": 4}
FORBIDDEN = {"malloc", "calloc", "realloc", "free", "PyMem_Malloc", "PyMem_Calloc", "PyMem_Free",
             "poll", "epoll_wait", "usleep", "nanosleep", "sched_yield", "pthread_mutex_lock",
             "engine_lock", "mmap", "munmap", "open", "close", "accept4", "connect"}
# Registering is for calls: who reaches it from a step asks `in_call` first (checked below).
GUARDED = {"op_register", "pool_extend", "lane_reserve", "lanes_keep"}
# Tables that are filled once, at import.
CONSTANT = {"CALLS", "OPS", "MODES", "operations", "table", "tried"}

HEAD = re.compile(r"^cdef\s+(?:inline\s+)?[\w\s*]*?\b(\w+)\s*\(", re.MULTILINE)
CALL = re.compile(r"(?<![.\w])(\w+)\s*\(")


def functions(paths):
    """Name -> (declaration, body) of every C function in `paths`."""
    found = {}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for match in HEAD.finditer(text):
            end = re.compile(r"^(?=\S)", re.MULTILINE).search(text, text.index("\n", match.start()))
            whole = text[match.start():end.start() if end else len(text)]
            # A declaration goes on to the colon that ends it.
            head = re.match(r"(?s).*?:\s*\n", whole)
            if head:
                found[match.group(1)] = (head.group(0), whole[head.end():])
    return found


def reachable(roots, known):
    seen, todo = set(), list(roots)
    while todo:
        name = todo.pop()
        if name in seen or name in GUARDED:
            continue
        seen.add(name)
        todo += [called for called in CALL.findall(known[name][1]) if called in known]
    return seen


def breaches(roots, known):
    """What functions reachable from `roots` do that a step must not."""
    wrong = []
    for name in sorted(reachable(roots, known)):
        head, body = known[name]
        if "noexcept nogil" not in head:
            wrong.append(f"{name} is not noexcept nogil")
        if "with gil" in body:
            wrong.append(f"{name} takes the GIL")
        wrong += [f"{name} calls {called}" for called in set(CALL.findall(body)) & FORBIDDEN]
        for guarded in GUARDED & set(CALL.findall(body)):
            if "in_call" not in body.split(guarded)[0]:
                wrong.append(f"{name} calls {guarded} without asking in_call")
    return wrong


def sources(part):
    if part == "engine":
        return ENGINE
    if part == "memory":
        return [SOURCES / "memory" / "mappings.pyx"]
    return sorted((SOURCES / "fabrics" / part).glob("*.p[yx][xd]"))


@pytest.mark.parametrize("part", ROOTS)
def test_steps_neither_allocate_nor_block(part):
    """R1: from each step operation down: noexcept, nogil, no allocation, no lock, no waiting."""
    known = functions(sources(part))
    assert set(ROOTS[part]) <= set(known)
    assert len(reachable(ROOTS[part], known)) > LEAST.get(part, 5)
    assert breaches(ROOTS[part], known) == []


def test_planted_breaches_are_found(tmp_path):
    bad = tmp_path / "bad.pyx"
    bad.write_text("cdef int step(int e) noexcept nogil:\n    deeper(e)\n    return 0\n\n\n"
                   "cdef void deeper(int e) noexcept nogil:\n    free(NULL)\n    lax(e)\n\n\n"
                   "cdef void lax(int e) except *:\n    op_register(e)\n")
    assert len(breaches(["step"], functions([bad]))) == 3


def shared_state(paths):
    """Variables at module level that are not constants, with their file."""
    pattern = re.compile(r"^cdef\s+(?!class|enum|struct|extern|inline|packed|union)"
                         r"([\w\s*\[\]]+?)\s+(\w+)\s*(?:=.*)?$", re.MULTILINE)
    return sorted(f"{path.name}: {match.group(2)}" for path in paths
                  for match in pattern.finditer(path.read_text(encoding="utf-8")))


def test_engines_and_fabrics_keep_no_state_of_their_module():
    """R2: tests run many engines in one process; what a module holds is filled once, at import."""
    assert [entry for entry in shared_state([*ENGINE, *FABRICS])
            if entry.split(": ")[1] not in CONSTANT] == []


def test_planted_state_is_found(tmp_path):
    bad = tmp_path / "bad.pyx"
    bad.write_text("cdef int counter = 0\ncdef fabric_ops OPS\n")
    assert shared_state([bad]) == ["bad.pyx: OPS", "bad.pyx: counter"]
