"""No function of the library raises an exception that a variable of the function still names.

The exception holds the frame by its traceback, and the frame the exception.  Such a cycle keeps all
arguments, of the callers too, until the garbage collector comes by: for a failed collective call
these are the user's arrays.  So the variable is deleted in a ``finally``.  (``except … as name``
does that by itself, and frames of compiled modules have no variables.)
"""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pyrdv"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def kept(text):
    """``(line, name)`` of each variable that outlives its own raise."""
    found = []
    for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, FUNCTIONS)):
        nodes = list(ast.walk(function))
        caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler)}
        bound = {node.id for node in nodes
                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        dropped = {node.id for guard in nodes if isinstance(guard, ast.Try)
                   for last in guard.finalbody for node in ast.walk(last)
                   if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
        found += [(node.lineno, node.exc.id) for node in nodes
                  if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name)
                  and node.exc.id in bound - dropped - caught]
    return found


def test_no_exception_is_kept_by_its_own_frame():
    found = {f"{path.relative_to(SOURCE)}:{line} {name}" for path in SOURCE.rglob("*.py")
             for line, name in kept(path.read_text())}
    assert not found


RAISED = "def f(data):\n    told = look(data)\n    {}\n"


@pytest.mark.parametrize("last", ["raise told", "raise told from None",
                                  "try:\n        raise told\n    finally:\n        pass"])
def test_planted_variable_is_caught(last):
    assert [name for _line, name in kept(RAISED.format(last))] == ["told"]


@pytest.mark.parametrize("last", ["raise KeyError", "raise told()",
                                  "try:\n        raise told\n    finally:\n        del told"])
def test_what_keeps_nothing_passes(last):
    assert kept(RAISED.format(last)) == []
