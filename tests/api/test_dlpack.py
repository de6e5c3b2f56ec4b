"""Objects that offer only DLPack: real ones of NumPy, and capsules made here, some wrong."""

import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

from pyrdv import errors
from pyrdv.api import datatypes
from pyrdv.api.buffers import parse, span_of


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class Element(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Strided(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32),
                ("element", Element), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Strided), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Strided)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Exporter:
    """Offers only DLPack, from an array of NumPy."""

    def __init__(self, array, versioned):
        self.array = array
        self.versioned = versioned

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        if not self.versioned:
            if options:
                raise TypeError("unexpected keyword argument")
            return self.array.__dlpack__()
        return self.array.__dlpack__(max_version=options["max_version"])


class Forged:
    """Offers capsules with any content; counts how often its deleter is called."""

    def __init__(self, *, shape=(4,), strides=None, element=(2, 64, 1), device=(1, 0), told=None,
                 version=(1, 0), flags=0, offset=0, null=False, ndim=None, legacy=False):
        self.memory = (ctypes.c_double * 8)(*range(8))
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.told = device if told is None else told
        self.deleted = 0
        self.deleter = DELETER(self.count)
        tensor = Strided(
            None if null else ctypes.addressof(self.memory), Device(*device),
            len(shape) if ndim is None else ndim, Element(*element), self.shape, self.strides,
            offset,
        )
        address = ctypes.cast(self.deleter, ctypes.c_void_p)
        if legacy:
            self.managed, self.name = Plain(tensor, None, address), b"dltensor"
        else:
            self.managed = Versioned(*version, None, address, flags, tensor)
            self.name = b"dltensor_versioned"

    def count(self, managed):
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1

    def __dlpack_device__(self):
        return self.told

    def __dlpack__(self, max_version=None):
        return new_capsule(ctypes.addressof(self.managed), self.name, None)


needs_versions = pytest.mark.skipif(
    "max_version" not in (np.ndarray.__dlpack__.__doc__ or ""),
    reason="this NumPy is from before versioned capsules (2.1); forged ones cover them",
)


@pytest.mark.parametrize("versioned", [False, pytest.param(True, marks=needs_versions)])
@pytest.mark.parametrize("char", "?bBhHiIlLefdFD")
def test_arrays_behind_dlpack(versioned, char):
    a = np.frombuffer(bytearray(range(64)), np.uint8).astype(char)
    a[0] = 1
    for array in (a, a.reshape(4, 16), a.reshape(8, 8).T, a[16:32], a[:0]):
        address, nbytes, count, datatype, keeper = parse(Exporter(array, versioned), writable=True)
        assert (nbytes, count) == (array.nbytes, array.size)
        assert ctypes.string_at(address, nbytes) == array.tobytes("A")
        assert datatype is datatypes.from_dtype(a.dtype)
        assert array.size == 0 or address == array.ctypes.data
        del keeper
    assert parse([Exporter(a, versioned), (3, 2), datatypes.BYTE])[0] == a.ctypes.data + 2


@pytest.mark.parametrize("versioned", [False, pytest.param(True, marks=needs_versions)])
def test_not_contiguous(versioned):
    with pytest.raises(BufferError, match=r"Exporter is not contiguous .*\(2, 2\).*\(4, 2\)"):
        parse(Exporter(np.zeros((2, 4))[:, ::2], versioned))


@needs_versions
def test_read_only_array():
    a = np.zeros(3)
    a.flags.writeable = False
    assert parse(Exporter(a, True))[1] == 24
    with pytest.raises(BufferError, match="read-only"):
        parse(Exporter(a, True), writable=True)


@pytest.mark.parametrize("versioned", [False, pytest.param(True, marks=needs_versions)])
def test_no_leak(versioned):  # B09
    a = np.zeros((4, 4))
    exporter, broken = Exporter(a, versioned), Exporter(a[:, ::2], versioned)
    before = sys.getrefcount(a)
    for _ in range(10_000):
        span_of(exporter, writable=True)
        parse([exporter, 2, "d"])
        for bad in ([exporter, 99], [exporter, "zz"], broken):
            with pytest.raises((ValueError, BufferError)):
                parse(bad)
    assert sys.getrefcount(a) == before
    alive = weakref.ref(a)
    keeper = parse(exporter)[-1]
    del a, exporter, broken, bad
    gc.collect()
    assert alive() is not None
    del keeper
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("legacy", [False, True])
def test_deleter_is_called_once_when_the_keeper_goes(legacy):
    forged = Forged(legacy=legacy, offset=16)
    address, nbytes, count, datatype, keeper = parse(forged, writable=True)
    assert address == ctypes.addressof(forged.memory) + 16
    assert (nbytes, count, datatype) == (32, 4, datatypes.DOUBLE)
    gc.collect()
    assert forged.deleted == 0
    del keeper
    assert forged.deleted == 1


@pytest.mark.parametrize("options, kind, text", [
    ({"device": (2, 0), "told": (1, 0)}, BufferError, "device type 2 .CUDA."),
    ({"version": (2, 0)}, BufferError, "DLPack 2.0"),
    ({"strides": (2,)}, BufferError, "not contiguous"),
    ({"strides": (-1,)}, BufferError, "not contiguous"),
    ({"shape": (2, 2), "strides": (0, 1)}, BufferError, "not contiguous"),
    ({"shape": (-1,)}, BufferError, "extent -1"),
    ({"ndim": -3}, BufferError, "-3 dimensions"),
    ({"shape": (2**62, 2)}, BufferError, "address space"),
    ({"shape": (2**40, 2**40)}, BufferError, "address space"),
    ({"element": (1, 4, 1)}, TypeError, "4 bits"),
    ({"element": (2, 0, 1)}, TypeError, "0 bits"),
    ({"null": True}, BufferError, "no address"),
])
def test_wrong_capsules_are_refused_and_given_back(options, kind, text):
    forged = Forged(**options)
    with pytest.raises(kind, match=text) as caught:
        parse(forged)
    assert isinstance(caught.value, errors.Error)
    del caught
    gc.collect()
    assert forged.deleted == 1


@pytest.mark.parametrize("flags, text", [(1, "read-only"), (2, "copy of its memory")])
def test_flags(flags, text):
    forged = Forged(flags=flags)
    assert parse(forged)[1] == 32
    assert forged.deleted == 1
    with pytest.raises(BufferError, match=text):
        parse(forged, writable=True)
    assert forged.deleted == 2


@pytest.mark.parametrize("options, nbytes, key", [
    ({"shape": (2, 2), "strides": (1, 2)}, 32, "DOUBLE"), ({"shape": ()}, 8, "DOUBLE"),
    ({"shape": (0, 5), "strides": (9, 9)}, 0, "DOUBLE"),
    ({"shape": (1, 4), "strides": (77, 1)}, 32, "DOUBLE"),
    ({"element": (4, 16, 1)}, 8, "BFLOAT16_T"), ({"element": (6, 8, 1)}, 4, "C_BOOL"),
    ({"element": (2, 32, 2)}, 32, "BYTE"), ({"element": (0, 128, 1), "shape": (2,)}, 32, "BYTE"),
    ({"element": (5, 128, 1)}, 64, "C_DOUBLE_COMPLEX"), ({"element": (10, 8, 1)}, 4, "BYTE"),
    ({"device": (3, 0)}, 32, "DOUBLE"),
])
def test_shapes_and_elements(options, nbytes, key):
    found = parse(Forged(**options))
    assert (found[1], found[3]) == (nbytes, datatypes.PREDEFINED[key])


def test_device_is_asked_before_the_capsule():
    forged = Forged(told=(2, 0))
    with pytest.raises(BufferError, match="Forged .*CUDA.*copy it to the host"):
        parse(forged)
    assert forged.deleted == 0


def test_a_used_capsule_is_refused():
    class Again(Exporter):
        def __dlpack__(self, **options):
            return self.capsule

    exporter = Again(np.zeros(3), True)
    exporter.capsule = np.zeros(3).__dlpack__()
    keeper = parse(exporter)[-1]
    with pytest.raises(BufferError, match="no unused DLPack capsule"):
        parse(exporter)
    exporter.capsule = "nonsense"
    with pytest.raises(BufferError, match="nonsense"):
        parse(exporter)
    del keeper


def test_errors_of_the_producer_reach_the_caller():
    class Failing(Exporter):
        def __dlpack__(self, **options):
            raise RuntimeError("needs grad")

    with pytest.raises(RuntimeError, match="needs grad"):
        parse(Failing(None, True))
