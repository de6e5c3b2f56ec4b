"""Sphinx configuration: ``make docs`` builds with warnings as errors."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "_ext"))

project = "pyrdv"
author = "The pyrdv developers"
copyright = "2026, The pyrdv developers"  # noqa: A001, Sphinx's name
release = version = installed("pyrdv")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "knobs",
    "measured",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_generated"]
html_theme = "furo"
html_title = f"pyrdv {release}"

autodoc_member_order = "groupwise"
autodoc_typehints = "none"
numpydoc_show_class_members = False
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
nitpicky = False


def leave_out_module_docstrings(app, what, name, obj, options, lines):
    """Module docstrings hold invariants for those who read the source; pages say the rest."""
    if what == "module":
        lines.clear()


def setup(app):
    app.connect("autodoc-process-docstring", leave_out_module_docstrings)
