"""Sphinx extension: a table whose experiment has changed since, or that was typed, is a warning.

`make docs` takes warnings for errors.  The rules are in benchmarks/results.py.
"""

import sys
from pathlib import Path

from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]


def check(app):
    """Warn of each table that is not what its experiment found."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from experiments import EXPERIMENTS
    from results import Documents

    for line in Documents(app.srcdir, EXPERIMENTS).complaints():
        logging.getLogger(__name__).warning("%s", line)


def setup(app):
    app.connect("builder-inited", check)
    return {"parallel_read_safe": True}
