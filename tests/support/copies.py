"""Copies of the package with other sources in them, built."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy(folder, changed):
    """A copy of the package with some files changed, their modules built.

    Parameters
    ----------
    folder : Path
        Where to; it is empty.
    changed : dict of str to str
        Texts, by the paths of their files under ``src/pyrdv``.

    Returns
    -------
    Path
        The folder to import it from.
    """
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "csrc"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    shutil.copytree(ROOT / "src", folder / "src",
                    ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path, text in changed.items():
        (folder / "src" / "pyrdv" / path).write_text(text, "utf-8")
    modules = [f"pyrdv.{path.removesuffix('.pyx').replace('/', '.')}" for path in changed
               if path.endswith(".pyx")]
    subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=folder,
                   env={**os.environ, "PYRDV_MODULES": " ".join(modules)}, check=True)
    return folder / "src"


def run(package, *command, **options):
    """Run this Python with the copy as its package; a `subprocess.CompletedProcess`."""
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(package), str(ROOT)))}, **options)
