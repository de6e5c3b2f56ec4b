"""What a test needs and does not find: named as skipped on a user's machine, a failure in CI."""

import importlib
import os

import pytest


def absent(text, module=False):
    """End the test, or with `module` the whole file, because of what `text` says is missing."""
    if os.environ.get("CI"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text, allow_module_level=module)


def verbs_module(name, package="fabrics"):
    """A module of `pyrdv.fabrics.verbs`, which a build without rdma-core's headers lacks.

    Those of `pyrdv.instruments.verbs` are lacking then, too.
    """
    try:
        return importlib.import_module(f"pyrdv.{package}.verbs.{name}")
    except ImportError as reason:
        absent(f"built without RDMA verbs: {reason}", module=True)
