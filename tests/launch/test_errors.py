"""pyrdv.errors: classes, mpi4py's methods, engine statuses."""

import importlib
import pickle
import pkgutil
import resource

import numpy as np
import pytest

import pyrdv
from pyrdv import errors


def _classes():
    return [value for value in vars(errors).values()
            if isinstance(value, type) and issubclass(value, errors.Error)]


def test_every_class_derives_from_error_and_has_a_known_error_class():
    assert len(_classes()) > 20
    for kind in _classes():
        made = kind("text")
        assert isinstance(made, RuntimeError)
        assert errors.error_string(made.Get_error_class())
        assert made.Get_error_code() == int(made) == made.error_class
        assert made.Get_error_string() == str(made) == "text"


def _everywhere():
    """Every exception class of the package, wherever it is defined."""
    for module in pkgutil.iter_modules([f"{pyrdv.__path__[0]}/api"], "pyrdv.api."):
        importlib.import_module(module.name)
    found, left = set(), {errors.Error}
    while left:
        kind = left.pop()
        found.add(kind)
        left |= set(kind.__subclasses__()) - found
    return found


@pytest.mark.parametrize("kind", _everywhere(), ids=lambda kind: kind.__name__)
def test_an_error_stands_for_the_number_of_its_class(kind):
    """As mpi4py's `Exception` does: for ``==``, the order, ``hash``, ``int`` and ``bool``."""
    made, number = kind("text"), kind.error_class
    assert number in [value for name, value in vars(errors).items() if name.startswith("ERR_")]
    assert made == number and number == made and not made != number and not number != made
    assert made == kind("another text") and made == errors.Error(number)
    assert made != number + 1 and made != errors.Error(errors.ERR_LASTCODE) and made != "text"
    assert number - 1 < made < number + 1 and number <= made <= number
    assert number + 1 > made > number - 1 and made >= number >= made
    assert hash(made) == hash(number) and {number: "found"}[made] == "found"
    assert int(made) == number and bool(made) is True and np.int64(number) == made
    with pytest.raises(TypeError):
        made < "text"  # noqa: B015
    assert errors.error_class(made) == errors.error_class(number) == number
    assert errors.error_string(made) == errors.error_string(number)


def test_builtin_bases_let_ordinary_handlers_work():
    assert issubclass(errors.RankError, ValueError)
    assert issubclass(errors.DatatypeError, TypeError)
    assert issubclass(errors.InvalidBufferError, BufferError)
    assert issubclass(errors.NoMemoryError, MemoryError)


def test_mpi_constants_differ():
    values = {name: value for name, value in vars(errors).items()
              if name.startswith("ERR_") or name == "SUCCESS"}
    assert len(set(values.values())) == len(values)
    assert values["SUCCESS"] == 0
    assert max(values.values()) == values["ERR_LASTCODE"]
    assert all(errors.error_string(value) for value in values.values())


def test_made_from_a_code_as_in_mpi4py():
    made = errors.Error(errors.ERR_TAG)
    assert made.Get_error_class() == errors.ERR_TAG
    assert str(made) == "invalid tag"
    assert repr(made) == "MPI.Exception(4)" and repr(errors.Error("why")) == "Error('why')"
    assert repr(errors.TagError("why")) == "TagError('why')"
    none = errors.Error()
    assert none == errors.SUCCESS and not none and errors.Error(errors.SUCCESS) == none
    assert errors.Error(-7) == errors.ERR_UNKNOWN and errors.Error("text") == errors.ERR_OTHER
    assert errors.Error(np.int64(errors.ERR_TAG)) == errors.ERR_TAG
    assert pickle.loads(pickle.dumps(made)) == errors.ERR_TAG
    unknown = errors.Error(errors.ERR_LASTCODE + 1)
    assert unknown == errors.ERR_LASTCODE + 1 > errors.Error(errors.ERR_LASTCODE)
    assert "128, which is not known" in str(unknown)


def test_truncation_text_has_both_sizes_source_and_tag():
    made = errors.from_status(1, message_bytes=500, buffer_bytes=104, source=3, tag=17)
    assert isinstance(made, errors.TruncationError)
    for part in ("500", "104", "rank 3", "tag 17", "Probe"):
        assert part in str(made)
    assert (made.message_bytes, made.buffer_bytes, made.source, made.tag) == (500, 104, 3, 17)


@pytest.mark.parametrize(
    ("code", "facts", "kind", "parts"),
    [(2, {"peer": 5, "reason": "was killed by signal 9"}, errors.PeerLostError,
      ("rank 5", "signal 9")),
     (3, {"source": 1, "tag": 2}, errors.CancelledError, ("peer 1", "tag 2")),
     (4, {"wanted_bytes": 4096}, errors.NoMemoryError, ("4096",)),
     (5, {"what": "send", "handle": 7}, errors.InternalError, ("send", "handle 7")),
     (99, {}, errors.InternalError, ("99",))])
def test_other_statuses(code, facts, kind, parts):
    made = errors.from_status(code, **facts)
    assert type(made) is kind
    for part in parts:
        assert part in str(made)


@pytest.mark.parametrize(
    ("limits", "parts"),
    [((65536, 131072), ("RLIMIT_MEMLOCK is 65536 bytes", "hard limit 131072 bytes", "LimitMEMLOCK",
                        "limits.conf", "ulimit -l unlimited")),
     ((65536, resource.RLIM_INFINITY), ("65536 bytes", "hard limit unlimited")),
     ((resource.RLIM_INFINITY,) * 2, ("RLIMIT_MEMLOCK", "is unlimited", "the device"))])
def test_a_failed_registration_names_the_limit_and_the_remedy(monkeypatch, limits, parts):
    """R04: the limit is looked up when the error is made."""
    none = (resource.RLIM_INFINITY,) * 2
    monkeypatch.setattr(resource, "getrlimit", {resource.RLIMIT_MEMLOCK: limits,
                                                resource.RLIMIT_AS: none}.__getitem__)
    made = errors.from_status(4, wanted_bytes=1 << 20, what="a receive", registering=True)
    assert type(made) is errors.NoMemoryError and made.wanted_bytes == 1 << 20
    for part in ("a receive (1048576 bytes)", "registered for RDMA", *parts):
        assert part in str(made)


def test_facts_survive_pickling():
    made = errors.from_status(2, peer=5, reason="gone")
    back = pickle.loads(pickle.dumps(made))
    assert (type(back), str(back), back.peer) == (errors.PeerLostError, str(made), 5)


def test_unknown_code_has_no_string():
    with pytest.raises(errors.ArgumentError, match="1234"):
        errors.error_string(1234)
    for wrong in (-1, errors.ERR_REVOKED + 1, errors.ERR_LASTCODE + 1):
        with pytest.raises(errors.ArgumentError, match=f"error code {wrong} is not known"):
            errors.error_class(wrong)
