"""Builds one extension module per ``.pyx`` file under ``src/pyrdv``.

Environment
-----------
PYRDV_SANITIZE
    Sanitizers for the compiler, such as ``address,undefined``.
PYRDV_DEBUG
    ``1`` builds without optimization, with debug information and asserts.
PYRDV_MODULES
    Shell patterns of module names, separated by spaces: build only these, for
    work on one part while another does not compile.
PYRDV_VERBS
    ``auto`` builds the modules of ``pyrdv.fabrics.verbs`` if rdma-core's headers
    are found by the compiler, CPPFLAGS included; ``require`` fails without
    them; ``off`` leaves the modules out.

A ``.pyx`` that needs a C file beside it says so in its own head::

    # distutils: sources = csrc/copy.c
"""

import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext as base_build_ext

# After setuptools, which brings distutils where Python no longer has it.
from distutils.ccompiler import new_compiler  # isort: skip
from distutils.sysconfig import customize_compiler  # isort: skip

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)  # distutils wants relative source paths

SANITIZE = os.environ.get("PYRDV_SANITIZE", "")
DEBUG = os.environ.get("PYRDV_DEBUG", "") not in ("", "0")
FLAVOUR = "sanitize" if SANITIZE else "debug" if DEBUG else "release"
MODULES = os.environ.get("PYRDV_MODULES", "*").split()
VERBS = os.environ.get("PYRDV_VERBS", "") or "auto"
if VERBS not in ("auto", "require", "off"):
    sys.exit(f"PYRDV_VERBS={VERBS}: give auto, require or off, or unset it")
JOBS = len(os.sched_getaffinity(0))

GENERATED = Path("build", f"cython-{FLAVOUR}")

DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    # Functions that bind take whatever comes for `self`, and read it as if it were of their
    # class.  Descriptors look at it first.  They show their signatures by the docstring.
    "binding": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    # An argument of an extension type is None only where its default is.
    "allow_none_for_extension_args": False,
}

# Packets are byte arrays that are read through structures, so the compiler
# must not reason from types about what may alias.
COMPILE = ["-std=c11", "-Wall", "-g0", "-fno-strict-aliasing", "-fvisibility=hidden"]
COMPILE += ["-Wno-sign-compare"]  # some interpreters ask for it, and Cython's loops are full of it
LINK = []
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"), ("_GNU_SOURCE", None)]
UNDEFINE = []
if SANITIZE:
    COMPILE += ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    COMPILE += ["-fno-sanitize-recover=all", "-U_FORTIFY_SOURCE"]
    LINK += [f"-fsanitize={SANITIZE}"]
    UNDEFINE = ["NDEBUG"]
elif DEBUG:
    COMPILE += ["-O0", "-g", "-U_FORTIFY_SOURCE"]
    UNDEFINE = ["NDEBUG"]
else:
    COMPILE += ["-O3"]

_EXTERN = re.compile(r"""cdef\s+extern\s+from\s+["']([^"'<>]+)["']""")
_INCLUDE = re.compile(r"""^\s*#\s*include\s+"([^"]+)\"""", re.MULTILINE)
_CIMPORT = re.compile(
    r"^\s*(?:from\s+(pyrdv[\w.]*)\s+cimport|cimport\s+(pyrdv[\w.]*))", re.MULTILINE
)
_SUBMODULE = re.compile(r"^\s*from\s+(pyrdv[\w.]*)\s+cimport\s+\(?([\w\s,]+)", re.MULTILINE)
_SOURCES = re.compile(r"^#\s*distutils:\s*sources\s*=\s*(.+)$", re.MULTILINE)


def cimported(text):
    """The ``.pxd`` files inside pyrdv that `text` cimports directly."""
    names = {first or second for first, second in _CIMPORT.findall(text)}
    for package, members in _SUBMODULE.findall(text):
        names |= {f"{package}.{word}" for word in re.findall(r"\w+", members)}
    for name in names:
        path = Path("src", *name.split(".")).with_suffix(".pxd")
        if path.exists():
            yield path


def headers(text, folder):
    """The files of csrc that `text` names, as Cython extern or C include."""
    for name in _EXTERN.findall(text) + _INCLUDE.findall(text):
        for base in (folder, Path("csrc")):
            if (base / name).exists():
                yield base / name
                break


def dependencies(pyx):
    """Every file of the repository whose change must rebuild `pyx`."""
    seen = set()
    todo = [pyx, pyx.with_suffix(".pxd")]
    while todo:
        path = todo.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        todo += cimported(text)
        todo += headers(text, path.parent)
        for line in _SOURCES.findall(text):
            todo += [Path(word) for word in line.split()]
    return sorted(str(path) for path in seen)


def forget_stale(pyx, depends):
    """Remove the C that Cython made of `pyx` before one of `depends` changed.

    Cython follows ``cimport`` itself, but misses a ``.pxd`` that is named as
    ``from package cimport module``.
    """
    made = GENERATED / pyx.with_suffix(".c")
    if made.exists():
        when = made.stat().st_mtime_ns
        if any(Path(name).stat().st_mtime_ns > when for name in depends):
            made.unlink()


def extensions():
    """One `Extension` per ``.pyx``, named by its path."""
    for pyx in sorted(Path("src/pyrdv").rglob("*.pyx")):
        name = ".".join(pyx.relative_to("src").with_suffix("").parts)
        if not any(fnmatch(name, pattern) for pattern in MODULES):
            continue
        depends = [*dependencies(pyx), "setup.py"]
        yield Extension(
            name,
            [str(pyx)],
            include_dirs=["csrc", numpy.get_include()],
            define_macros=list(MACROS),
            undef_macros=list(UNDEFINE),
            extra_compile_args=list(COMPILE),
            extra_link_args=list(LINK),
            depends=depends,
        )


_VALUE = re.compile(r"^\s*([A-Z]\w*) = ([^#\n]+?)\s*(?:#.*)?$", re.MULTILINE)
_SIGNATURE = re.compile(r'(?<=, ")\w+\((?:[^"\\]|\\")*\)(?=\\n--\\n)')


def constants():
    """The numbers that defaults of parameters are written as, by name."""
    known = {}
    for path in sorted(Path("src").rglob("*.p*")):
        if path.suffix in (".pxd", ".pyx") or path.name == "constants.py":
            for name, value in _VALUE.findall(path.read_text(encoding="utf-8")):
                with suppress(Exception):       # of something else than numbers
                    known[name] = int(eval(value, {}, known))
    return known


def show_values(made, known):
    """Put numbers in place of names into the signatures within the C file `made`.

    Cython writes a default as its source has it, and Python finds no values for such names.
    """
    before = made.read_text(encoding="utf-8")

    def numbers(signature):
        return re.sub(r"(?<==)[A-Z][\w |]*", number, signature[0])

    def number(default):
        ours = all(name in known for name in re.findall(r"\w+", default[0]))
        return str(eval(default[0], {}, known)) if ours else default[0]

    after = _SIGNATURE.sub(numbers, before)
    if after != before:
        made.write_text(after, encoding="utf-8")


VERBS_PACKAGES = ("pyrdv.fabrics.verbs.", "pyrdv.instruments.verbs.")
VERBS_REMEDY = "install rdma-core's headers, 36 or newer (Debian: libibverbs-dev librdmacm-dev)"


def verbs_missing():
    """What the compiler lacks for the modules of verbs, in words; None if nothing."""
    compiler = new_compiler()
    customize_compiler(compiler)

    def compiles(program):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "try.c")
            source.write_text(program, encoding="ascii")
            command = [*compiler.compiler_so, "-std=gnu11", "-D_GNU_SOURCE", "-Icsrc"]
            command += ["-c", str(source), "-o", str(source.with_suffix(".o"))]
            return subprocess.run(command, capture_output=True).returncode == 0

    if compiles('#include "verbs_shim.h"\nint (*first)(struct verbs_calls *) = verbs_open;\n'):
        return None
    if compiles("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n"):
        return "infiniband/verbs.h is of an rdma-core that is too old"
    return "infiniband/verbs.h and rdma/rdma_cma.h were not found"


class build_ext(base_build_ext):
    """Translates and compiles on all cores, in place from a folder that is kept.

    An editable install and ``build_ext --inplace`` share that folder, so the
    second does not repeat the work of the first.  Translation waits until
    something is really built: an sdist or a look at the metadata needs none.
    """

    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = JOBS
        if self.inplace or self.editable_mode:
            kept = Path("build", f"{FLAVOUR}-{sys.implementation.cache_tag}")
            self.build_lib = str(kept / "lib")
            self.build_temp = str(kept / "temp")

    def leave_out_verbs(self):
        """Take the modules of verbs away if they are not to be, or cannot be, built."""
        verbs = [ext for ext in self.extensions if ext.name.startswith(VERBS_PACKAGES)]
        if VERBS == "off":
            text = "as PYRDV_VERBS=off says"
        else:
            text = verbs_missing() if verbs else None
            if text is None:
                return
            text += f"; {VERBS_REMEDY}"
        if VERBS == "require":
            sys.exit(f"PYRDV_VERBS=require: {text}")
        print(f"built without RDMA verbs: {text}", file=sys.stderr)
        self.extensions = [ext for ext in self.extensions if ext not in verbs]
        for ext in verbs:
            # An earlier build may have made them: they would be taken for those of this one.
            Path(self.build_lib, self.get_ext_filename(ext.name)).unlink(missing_ok=True)
            if self.inplace:
                Path("src", self.get_ext_filename(ext.name)).unlink(missing_ok=True)

    def run(self):
        self.leave_out_verbs()
        if not self.extensions:
            return
        for ext in self.extensions:
            forget_stale(Path(ext.sources[0]), ext.depends)
        translated = cythonize(
            self.extensions,
            include_path=["src"],
            build_dir=str(GENERATED),
            compiler_directives=DIRECTIVES,
            nthreads=JOBS if JOBS > 1 else 0,
        )
        known = constants()
        for ext in translated:
            show_values(Path(ext.sources[0]), known)
        made = {ext.name: ext for ext in translated}
        for ext in self.extensions:
            # setuptools keeps notes of its own on the object, so it stays.
            settings = vars(made[ext.name]).items()
            vars(ext).update({name: value for name, value in settings if name[0] != "_"})
        super().run()


setup(ext_modules=list(extensions()), cmdclass={"build_ext": build_ext})
