# cython: language_level=3
"""Names that mpi4py's classes have and ours have not: in the classes, for whoever asks for them.

What must hold:

1. Asking a class or an instance for such a name raises an error that names the feature.
2. Nothing else becomes slower. Neither classes nor their metaclass have a hook for attributes
   (``__getattr__``): with one the interpreter looks up every attribute the slow way, 70 ns more
   for each call of a method.
3. ``dir`` does not list them. For a class that takes a metaclass, with nothing but ``__dir__``.
"""
cimport cython

from abc import ABCMeta

from pyrdv.api import missing

cdef extern from *:
    """
    /* Python forbids both for extension types, although only their makers are meant. */
    static int pyrdv_furnish(PyObject *cls, PyObject *names, PyObject *metaclass)
    {
    #if PY_VERSION_HEX >= 0x030C0000
        PyObject *own = PyType_GetDict((PyTypeObject *) cls);
    #else
        PyObject *own = ((PyTypeObject *) cls)->tp_dict;
        Py_INCREF(own);
    #endif
        int status = PyDict_Merge(own, names, 1);
        Py_DECREF(own);
        if (status == 0 && Py_TYPE(cls) == &PyType_Type) {
            Py_INCREF(metaclass);
            Py_SET_TYPE(cls, (PyTypeObject *) metaclass);
        }
        PyType_Modified((PyTypeObject *) cls);
        return status;
    }
    """
    int furnish "pyrdv_furnish"(object cls, object names, object metaclass) except -1


@cython.embedsignature(False)
class Missing:
    """Stands in a class for a name that is not offered, and says so when it is asked for."""

    __slots__ = ("kind", "name", "feature")

    def __init__(self, kind, name, feature):
        self.kind = kind
        self.name = name
        self.feature = feature

    def __get__(self, instance, owner):
        raise missing.refusal(self.kind, self.name, self.feature)


def _offered(cls, names):
    """Those of `names` that `cls` does not merely say to be missing."""
    known = {}
    for base in reversed(cls.__mro__):
        known.update(base.__dict__)
    return [name for name in names if not isinstance(known.get(name), Missing)]


@cython.embedsignature(False)
class _Module(str):
    """``__module__`` of a metaclass, which would be that of its extension types too."""

    def __get__(self, instance, owner):
        return type.__dict__["__module__"].__get__(instance)

    def __set__(self, instance, value):
        type.__dict__["__module__"].__set__(instance, value)


@cython.embedsignature(False)
class Offers(ABCMeta):
    """The class of classes that know what they lack: ``dir`` lists what works.

    Users derive classes from ours and from abstract ones too, and Python wants one metaclass for
    both. Nothing else of `ABCMeta` is meant: its checks are slow, and extension types lack what
    they need.
    """

    __module__ = _Module(__name__)
    __slots__ = ()
    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def __dir__(cls):
        return _offered(cls, type.__dir__(cls))


@cython.binding(True)       # it becomes a method
def _listed(self):
    """Names of what works."""
    own = getattr(self, "__dict__", ())
    offered = set(_offered(type(self), object.__dir__(self)))
    return sorted(offered.union(own))


cpdef object name_missing(object cls):
    """Put into `cls` the names that it lacks, by `MISSING`, below its own name; returns `cls`."""
    kind = cls.__name__
    names = {name: Missing(kind, name, feature)
             for feature, listed in missing.MISSING[kind].items() for name in listed.split()}
    furnish(cls, {**names, "__dir__": _listed}, Offers)
    return cls
