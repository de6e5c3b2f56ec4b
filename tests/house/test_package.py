"""The sdist holds what a build needs, and the wheel made from it holds every module."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.house import reading

BUILD_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def call(*command, cwd, **variables):
    environ = {**os.environ, **variables}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """An sdist made from a clean copy of the tracked files."""
    tree = tmp_path_factory.mktemp("tree")
    for path in reading.tracked():
        target = tree / path.relative_to(reading.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    out = tmp_path_factory.mktemp("sdist")
    call(sys.executable, "-c", BUILD_SDIST, str(out), cwd=tree)
    (made,) = out.glob("*.tar.gz")
    return made


def relative(suffixes, under):
    return {str(path.relative_to(reading.ROOT)) for path in reading.sources(*suffixes, under=under)}


def test_sdist_is_complete(sdist):
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = relative((".py", ".pyx", ".pxd", ".pyi"), "src")
    wanted |= relative((".c", ".h"), "csrc") | relative((".py", ".sh"), "tests")
    wanted |= relative((".py",), "examples") | relative((".md", ".rst", ".py"), "docs")
    wanted |= {"src/pyrdv/py.typed", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
    wanted |= {"Makefile", "setup.py", "pyproject.toml", ".ci/prepare", ".ci/run", ".ci/lint"}
    assert wanted - inside == set()
    assert not [name for name in inside if name.endswith((".so", ".pyc"))]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_wheel_from_sdist_is_complete_and_imports(sdist, tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # What is in the wheel does not depend on the optimizer, and without it the build is short.
    call(*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(sdist), cwd=tmp_path, PYRDV_DEBUG="1")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    modules = {
        name.removeprefix("src/").removesuffix(".pyx") for name in relative((".pyx",), "src")
    }
    built = {name.split(".")[0] for name in inside if name.endswith(".so")}
    assert built == modules
    wanted = relative((".py", ".pxd", ".pyi"), "src") | {"src/pyrdv/py.typed"}
    assert {name.removeprefix("src/") for name in wanted} - inside == set()
    assert not [name for name in inside if name.endswith((".pyx", ".c"))]

    # Unpacked elsewhere it works without the repository.
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "from pyrdv import MPI\nimport pyrdv\n"
        "print(pyrdv.__file__, MPI.COMM_WORLD.Get_size())"
    )
    printed = call(sys.executable, "-P", "-c", code, cwd=tmp_path).split()
    assert printed == [str(tmp_path / "site" / "pyrdv" / "__init__.py"), "1"]
