"""One ``.pyx`` = one ``.pxd`` = one extension, and no ``.pyx`` is pasted into another."""

from tests.house import reading


def cython_files():
    return reading.sources(".pyx", ".pxd", under="src/pyrdv")


def missing_pxd(imported, modules, contracts):
    """The cimported modules that have a ``.pyx`` but no ``.pxd``."""
    return sorted((imported & modules) - contracts)


def cimported(module, text, is_package=False):
    """Every pyrdv module that `text` may cimport (a member may be a module too)."""
    only = "\n".join(
        line if "cimport" in line or not line.lstrip().startswith(("import", "from")) else ""
        for line in text.split("\n")
    )
    names = set()
    for edge in reading.cython_imports(module, only, is_package):
        base, _, member = edge.target.partition(":")
        names |= {base, f"{base}.{member}"}
    return names


def test_every_cimported_module_has_its_contract():
    files = cython_files()
    modules = {reading.module_name(path) for path in files if path.suffix == ".pyx"}
    contracts = {reading.module_name(path) for path in files if path.suffix == ".pxd"}
    imported = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        imported |= cimported(reading.module_name(path), text, path.stem == "__init__")
    assert imported & modules, "no cimport was found: the reader is broken"
    assert missing_pxd(imported, modules, contracts) == []


def test_missing_contract_is_caught():
    text = "from pyrdv.b cimport f\nfrom pyrdv cimport c\nimport pyrdv.d\n"
    imported = cimported("pyrdv.a", text)
    modules = {"pyrdv.b", "pyrdv.c", "pyrdv.d", "pyrdv.e"}
    assert missing_pxd(imported, modules, {"pyrdv.b"}) == ["pyrdv.c"]


def test_no_file_is_pasted():
    pasted = []
    for path in cython_files():
        pasted += reading.cython_includes(path.name, path.read_text(encoding="utf-8"))
    assert pasted == []


def test_pasted_file_is_caught():
    text = '"""\ninclude "not.pyx"\n"""\ninclude "other.pyx"\n# include "comment.pyx"\n'
    assert [edge.target for edge in reading.cython_includes("a", text)] == ["other.pyx"]


def test_every_module_is_built():
    for path in reading.sources(".pyx", under="src/pyrdv"):
        built = list(path.parent.glob(f"{path.stem}.*.so"))
        assert built, f"{path} has no extension module beside it; run `make build`"
