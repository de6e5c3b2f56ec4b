"""What MPI has and this version has not is named where it is used, and costs nothing elsewhere."""

import copy
import inspect
import pickle
import rlcompleter
import traceback
from abc import ABC, abstractmethod
from collections.abc import Sized

import numpy as np
import pytest

import pyrdv
from pyrdv import MPI
from pyrdv.api.missing import MISSING, attribute
from pyrdv.api.naming import Missing, Offers

#: Of each class an object to ask; `Comm` and `Intercomm` have handles that work and null ones.
OBJECTS = {
    "Comm": (MPI.Comm(MPI.COMM_WORLD), MPI.Comm()),
    "Intercomm": (MPI.Intercomm(),),
    "Datatype": (MPI.INT, MPI.DATATYPE_NULL),
    "Status": (MPI.Status(),),
    "Request": (MPI.REQUEST_NULL, MPI.COMM_SELF.Isend(b"", MPI.PROC_NULL), MPI.Prequest()),
    "Prequest": (MPI.Prequest(), MPI.COMM_SELF.Send_init(b"", MPI.PROC_NULL)),
    "Message": (MPI.MESSAGE_NULL,),
    "Op": (MPI.SUM, MPI.OP_NULL),
    "Group": (MPI.GROUP_EMPTY, MPI.COMM_WORLD.Get_group()),
    "Info": (MPI.INFO_NULL, MPI.Info.Create()),
    "MPI": (),
    "pyrdv": (),
}
MODULES = {"MPI": MPI, "pyrdv": pyrdv}
TABLE = [(kind, name, feature) for kind, features in MISSING.items()
         for feature, names in features.items() for name in names.split()]


def test_the_table_is_whole():
    assert set(OBJECTS) == set(MISSING)
    assert len({(kind, name) for kind, name, _ in TABLE}) == len(TABLE) > 350


def shown(thing, name):
    """The error's text if asking `thing` for `name` is refused as it must be."""
    with pytest.raises(NotImplementedError) as caught:
        getattr(thing, name)
    assert isinstance(caught.value, AttributeError) and isinstance(caught.value, MPI.Exception)
    assert caught.value == MPI.ERR_UNSUPPORTED_OPERATION and caught.value.name == name
    assert not hasattr(thing, name) and getattr(thing, name, thing) is thing
    assert name not in dir(thing)
    return str(caught.value)


@pytest.mark.parametrize("kind", MISSING)
def test_each_is_named(kind):
    """By class, subclass, instance and module, with its feature and what to do instead."""
    if kind in MODULES:
        asked = (MODULES[kind],)
    else:
        cls = getattr(MPI, kind)
        asked = (cls, type("Own", (cls,), {}), *OBJECTS[kind])
    for _, name, feature in (entry for entry in TABLE if entry[0] == kind):
        for thing in asked:
            text = shown(thing, name)
            assert text.startswith(f"{kind}.{name} is not offered: this version has no "
                                   f"{feature.name}") and text.endswith(feature.instead)


@pytest.mark.parametrize("name", ["Create_cart", "Ialltoallw", "Spawn", "Set_errhandler", "handle"])
def test_communicators_that_work_name_them_too(name):
    dup = MPI.COMM_SELF.Dup()
    for thing in (MPI.Intracomm, MPI.COMM_WORLD, MPI.COMM_NULL, dup):
        assert "is not offered" in shown(thing, name)
    dup.Free()


def test_nothing_that_works_is_refused():
    for name, kind in vars(MPI).items():
        if not inspect.isclass(kind) or name.startswith("_"):
            continue
        for base in kind.__mro__:
            for own, value in vars(base).items():
                if isinstance(value, Missing):
                    later = kind.__mro__[kind.__mro__.index(base) + 1:]
                    works = [b for b in later if own in vars(b)
                             and not isinstance(vars(b)[own], Missing)]
                    assert not works, f"{own} of {works} is hidden by {base}"
    for name in ("Split", "Dup", "Free", "Bcast", "bcast", "Reduce_scatter"):
        assert callable(getattr(MPI.Intracomm, name)) and name in dir(MPI.COMM_WORLD)


def test_importing_names_them():
    """``from ... import`` would hide the text of an AttributeError; it is still an ImportError."""
    with pytest.raises(NotImplementedError, match=r"MPI\.Win is not offered") as caught:
        from pyrdv.MPI import Win  # noqa: F401
    assert isinstance(caught.value, ImportError)
    with pytest.raises(NotImplementedError, match=r"pyrdv\.futures is not offered") as caught:
        from pyrdv import futures  # noqa: F401
    assert isinstance(caught.value, ImportError)
    with pytest.raises(ImportError, match="Nonsense") as caught:
        from pyrdv.MPI import Nonsense  # noqa: F401
    assert not isinstance(caught.value, NotImplementedError)


def test_what_nobody_has_is_an_attribute_error():
    things = [MPI, pyrdv, MPI.Comm, MPI.Intracomm, MPI.COMM_WORLD, MPI.INT, MPI.Datatype,
              MPI.REQUEST_NULL, MPI.Status(), MPI.SUM, MPI.GROUP_EMPTY, MPI.INFO_NULL]
    for thing in things:
        for name in ("Nonsense", "__deepcopy__", "__array_interface__", "_ipython_display_"):
            with pytest.raises(AttributeError, match=name) as caught:
                getattr(thing, name)
            assert not isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize("thing, typo, meant", [
    (MPI, "COMM_WRLD", "COMM_WORLD"), (MPI.COMM_WORLD, "Sned", "Send"),
    (MPI.Status(), "Get_conut", "Get_count"),
])
def test_a_typo_gets_a_suggestion(thing, typo, meant):
    try:
        getattr(thing, typo)
    except AttributeError as error:
        said = "".join(traceback.format_exception(error))
        # Before 3.12 only the interpreter's own report of an uncaught exception has it.
        assert error.obj is thing and error.name == typo and meant in dir(error.obj)
        assert typo in said


def test_a_refusal_gets_no_suggestion():
    error = attribute("MPI", "pyrdv.MPI", "Win")
    assert error.obj is None and "MIN" in dir(MPI)


def test_completion_offers_what_works():
    """As an interactive interpreter completes; it asks classes and instances alike."""
    spaces = rlcompleter.Completer({"MPI": MPI, "comm": MPI.COMM_WORLD})
    for start, thing in (("MPI.", MPI), ("comm.", MPI.COMM_WORLD), ("MPI.Comm.", MPI.Comm),
                         ("MPI.INT.", MPI.INT), ("MPI.Op.", MPI.Op)):
        offered = {word.partition("(")[0][len(start):] for word in spaces.attr_matches(start)}
        assert len(offered) >= 8
        assert [name for name in offered if not hasattr(thing, name)] == []


def test_what_dir_lists_is_there():
    kinds = [kind for kind in vars(MPI).values() if isinstance(kind, Offers)]
    assert len(kinds) >= 10
    for thing in (MPI, pyrdv, *kinds, *(one for ones in OBJECTS.values() for one in ones)):
        listed = dir(thing)
        assert listed == sorted(set(listed))
        for name in listed:
            try:
                getattr(thing, name)
            except NotImplementedError:
                # The handle of a request that is not persistent: a matter of the object.
                assert name == "handle" and isinstance(thing, MPI.Request)
            except (AttributeError, MPI.Exception):
                # ``__abstractmethods__`` of every class; what null handles cannot say.
                assert name == "__abstractmethods__" or not thing


def test_own_attributes_and_methods_win():
    class Own(MPI.Intracomm):
        def Create_cart(self, dims):
            return dims

    own = Own(MPI.COMM_SELF)
    own.Spawn = 3
    assert own.Create_cart([2]) == [2] and own.Spawn == 3
    assert {"Create_cart", "Spawn"} <= set(dir(own)) and "Create_cart" in dir(Own)
    assert not hasattr(own, "Create_graph")


def test_protocols_are_not_confused():
    for thing in (MPI.COMM_WORLD, MPI.INT, MPI.SUM, MPI.REQUEST_NULL, MPI.GROUP_EMPTY):
        assert copy.copy(thing) == copy.deepcopy(thing) == thing
        assert pickle.loads(pickle.dumps(thing)) == thing
    for cls in (MPI.Comm, MPI.Intracomm, MPI.Datatype, MPI.Group, MPI.Request):
        assert copy.deepcopy(cls) is cls and pickle.loads(pickle.dumps(cls)) is cls
        assert isinstance(cls, type)
    assert MPI.Comm.__module__ == "pyrdv.api.communicator" == MPI.Intercomm.__module__
    assert MPI.Intracomm.__module__ == "pyrdv.collectives.intracomm"
    assert MPI.Grequest.__base__.__module__ == "pyrdv.api.generalized"
    assert Offers.__module__ == "pyrdv.api.naming" and "Offers" in repr(Offers)
    assert np.asarray(MPI.COMM_WORLD, dtype=object).shape == ()


def test_classes_are_derived_from_abstract_ones_too():
    class Both(MPI.Intracomm, Sized):
        def __len__(self):
            return self.size

    class Abstract(MPI.Request, ABC):
        @abstractmethod
        def something(self):
            pass

    both = Both(MPI.COMM_SELF)
    assert len(both) == both.Get_size() == 1 and isinstance(both, MPI.Comm)
    assert isinstance(both, Sized) and issubclass(Both, Sized) and not hasattr(Both, "Spawn")
    assert isinstance(MPI.COMM_WORLD, MPI.Comm) and not isinstance(MPI.INT, MPI.Comm)
    assert not isinstance(MPI.COMM_WORLD, Both) and not issubclass(MPI.Comm, MPI.Intracomm)
    with pytest.raises(TypeError, match="abstract"):
        Abstract()


def test_refusals_can_be_pickled():
    for error in (attribute("MPI", "pyrdv.MPI", "Win"),):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again == error


def test_a_number_of_a_plain_request_is_refused_for_hasattr_too():
    request = MPI.COMM_SELF.Isend(b"", MPI.PROC_NULL)
    assert not hasattr(request, "handle")
    with pytest.raises(NotImplementedError, match="handle"):
        request.handle  # noqa: B018
    request.Wait()


@pytest.mark.parametrize("kind", [MPI.Comm, MPI.Intracomm, MPI.Request, MPI.Status, MPI.Message])
def test_the_interpreter_may_look_up_methods_its_fast_way(kind):
    """A hook for attributes makes every call of a method slower; so does one of the metaclass."""
    hooks = {name for base in (*kind.__mro__[:-1], Offers) for name in vars(base)}
    assert not hooks & {"__getattr__", "__getattribute__"}
