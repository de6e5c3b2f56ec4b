"""What MPI has and this version has not is named where it is used, and costs nothing elsewhere."""

import pytest

from pyrdv import MPI
from pyrdv.api.missing import MISSING

PAIRS = [(thing, name, feature) for thing, kind in ((MPI, "MPI"), (MPI.COMM_WORLD, "Comm"))
         for feature, names in MISSING[kind].items() for name in names.split()]


@pytest.mark.parametrize("thing, name, feature", PAIRS, ids=[name for _, name, _ in PAIRS])
def test_each_is_named(thing, name, feature):
    with pytest.raises(NotImplementedError, match=f"{name} is not offered.*{feature}"):
        getattr(thing, name)
    assert not hasattr(thing, name)


def test_what_nobody_has_is_an_attribute_error():
    for thing in (MPI, MPI.COMM_WORLD):
        with pytest.raises(AttributeError, match="Nonsense") as caught:
            thing.Nonsense  # noqa: B018
        assert not isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize("kind", [MPI.Comm, MPI.Intracomm, MPI.Request, MPI.Status, MPI.Message])
def test_the_interpreter_may_look_up_methods_its_fast_way(kind):
    """A hook for attributes makes every call of a method slower."""
    hooks = {name for base in kind.__mro__[:-1] for name in vars(base)}
    assert not hooks & {"__getattr__", "__getattribute__"}
