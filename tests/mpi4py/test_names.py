"""Every name of mpi4py's stub works here, or is refused by name; the table has no other names.

The stub is ``MPI.pyi`` of the version in `tests/mpi4py/source.py`.
"""

import ast
import inspect

import pytest

from pyrdv import MPI
from pyrdv.api.missing import MISSING


def names_of(body):
    """Names that the statements of a stub define."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Assign):
            yield from map(ast.unparse, node.targets)
        elif isinstance(node, ast.If):
            yield from names_of(node.body + node.orelse)


def stub_of(text):
    """{class: (its bases, its own names)} of a stub, the module below "MPI"; no ``__names__``.

    But for ``__pyx_capi__``, these are protocols, whose absence Python asks for and understands.
    """
    tree = ast.parse(text)
    found = {"MPI": ((), tree.body)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = tuple(map(ast.unparse, node.bases)), node.body
    return {kind: (bases, {
        name for name in names_of(body) if not name.startswith("__") or name == "__pyx_capi__"})
            for kind, (bases, body) in found.items()}


def with_bases(stub, kind):
    """All names of `kind` in the stub, inherited ones too."""
    if kind not in stub:
        return set()
    bases, names = stub[kind]
    return names.union(*(with_bases(stub, base) for base in bases))


def silent(thing, names):
    """Those of `names` that `thing` neither has nor refuses by name."""
    found = []
    for name in names:
        try:
            getattr(thing, name)
        except NotImplementedError:
            continue
        except AttributeError:
            found.append(name)
    return sorted(found)


def stale(stub, kind, listed):
    """Those of `listed` that neither `kind` of the stub nor a class derived from it has."""
    known = with_bases(stub, kind).union(
        *(names for other, (bases, names) in stub.items() if kind in bases))
    return sorted(set(listed) - known)


@pytest.fixture(scope="module")
def stub(mpi4py_source):
    return stub_of((mpi4py_source / "src" / "mpi4py" / "MPI.pyi").read_text("utf-8"))


def test_the_stub_is_read(stub):
    assert len(stub) > 20 and len(stub["MPI"][1]) > 350
    assert "Get_rank" in with_bases(stub, "Cartcomm") and "Create_cart" in stub["Intracomm"][1]


def test_no_name_is_silent(stub):
    assert silent(MPI, stub["MPI"][1]) == []
    classes = 0
    for kind in stub:
        cls = getattr(MPI, kind, None)
        if inspect.isclass(cls):
            classes += 1
            assert silent(cls, with_bases(stub, kind)) == [], kind
    assert classes >= 15


def test_no_name_is_left_over(stub):
    for kind, features in MISSING.items():
        if kind != "pyrdv":
            listed = " ".join(features.values()).split()
            assert stale(stub, kind, listed) == [], kind


def test_the_package_has_what_is_refused(mpi4py_source):
    """The modules and functions of the package itself."""
    folder = mpi4py_source / "src" / "mpi4py"
    made = {*names_of(ast.parse((folder / "__init__.pyi").read_text("utf-8")).body),
            *(path.stem for path in folder.iterdir())}
    listed = set(" ".join(MISSING["pyrdv"].values()).split())
    assert listed <= made
    public = {name for name in made if not name.startswith("_")}
    # Its headers, and py.typed.
    assert public - listed == {"MPI", "include", "libmpi", "py"}


def test_planted_names_are_caught():
    stub = stub_of("class Comm:\n    def Get_rank(self): ...\n    def Novelty(self): ...\n"
                   "class Intracomm(Comm):\n    def Create_cart(self): ...\n"
                   "OTHER_NOVELTY: int = ...\nWin = 1\n")
    assert silent(MPI.Comm, with_bases(stub, "Intracomm")) == ["Novelty"]
    assert silent(MPI, stub["MPI"][1]) == ["OTHER_NOVELTY"]
    assert stale(stub, "Comm", ["Get_rank", "Create_cart", "Old"]) == ["Old"]
