"""What is no request, message, communicator … is refused by an exception; no process dies of it."""

import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest

from pyrdv import MPI
from tests.support.jobs import clean_environment

PROGRAMS = Path(__file__).parent / "programs"


def lines_of(name):
    """What a program prints that must end well; its last words tell what ended it."""
    done = subprocess.run([sys.executable, str(PROGRAMS / name)], capture_output=True, text=True,
                          env=clean_environment(), timeout=300)
    assert done.returncode == 0, f"status {done.returncode} at: {done.stderr[-2000:]}"
    return done.stdout.splitlines()


def test_no_argument_ends_the_process():
    """Each public callable, with strange objects in every place."""
    (made,) = lines_of("foreign.py")
    assert int(made) > 10_000


def test_no_self_ends_the_process():
    """Each method and property of each class, asked with something else for ``self``."""
    *complaints, made = lines_of("foreign_self.py")
    assert complaints == []
    foreign, bare = map(int, made.split())
    assert foreign > 100_000 and bare > 10_000


CLASSES = (MPI.Comm, MPI.Intracomm, MPI.Request, MPI.Prequest, MPI.Grequest, MPI.Message,
           MPI.Status, MPI.Datatype, MPI.Pickle, MPI.buffer, MPI.BottomType)


@pytest.mark.parametrize("kind", CLASSES)
def test_methods_show_their_signatures(kind):
    """As `help` and editors read them, though the methods are of the interpreter's own kind."""
    seen = 0
    for base in kind.__mro__:
        for name in vars(base) if base.__module__.startswith("pyrdv") else ():
            method = inspect.getattr_static(base, name)
            if name.startswith("__") or not callable(getattr(base, name, None)):
                continue
            shown = inspect.signature(getattr(base, name))
            if inspect.isfunction(method) or inspect.ismethoddescriptor(method) and not isinstance(
                    method, (staticmethod, classmethod, types.ClassMethodDescriptorType)):
                assert "self" in shown.parameters, f"{name}{shown}"
            text = inspect.getdoc(getattr(base, name)) or ""
            assert "--\n" not in text.partition("\n\n")[0] and text != "None", name
            seen += 1
    assert seen or kind is MPI.BottomType


def test_defaults_are_shown_as_numbers():
    for function, tag in ((MPI.Comm.Recv, "tag"), (MPI.Comm.recv, "tag"), (MPI.Comm.Probe, "tag"),
                          (MPI.Comm.sendrecv, "recvtag"), (MPI.Message.Probe, "tag")):
        shown = inspect.signature(function).parameters
        assert shown["source"].default == MPI.ANY_SOURCE and shown[tag].default == MPI.ANY_TAG
    assert inspect.signature(MPI.Comm.Abort).parameters["errorcode"].default == 1


def test_methods_of_communicators_find_their_type_at_once():
    """The interpreter compares `self` with the class that a method names, and then with others."""
    seen = 0
    for name in dir(MPI.Intracomm):
        method = inspect.getattr_static(MPI.Intracomm, name)
        if not name.startswith("__") and isinstance(method, types.MethodDescriptorType):
            assert method.__objclass__ is type(MPI.COMM_WORLD), name
            seen += 1
    assert seen > 50
    with pytest.raises(TypeError):
        MPI.Intracomm.Get_rank(MPI.Comm(MPI.COMM_WORLD))
    assert MPI.Comm.Get_rank(MPI.COMM_WORLD) == MPI.Intracomm.Get_rank(MPI.COMM_WORLD) == 0


def test_a_class_of_ones_own_has_its_methods_first():
    class Own(MPI.Intracomm):
        def Get_size(self):
            return super().Get_size() + 1

    own = Own(MPI.COMM_SELF)
    assert own.Get_size() == 2 and own.Get_rank() == 0 and own.size == 1
