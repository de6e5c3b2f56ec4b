# cython: language_level=3
"""Methods that a class takes over from the extension types above it.

The interpreter has a short way for methods of the very class of `self`. For a method of a class
above it looks for that class among all above `self`, which costs a small message 8 ns at each end.
"""
from types import MethodDescriptorType

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        pass
    ctypedef struct PyMethodDescrObject:
        PyMethodDef *d_method           # static data of the module that defines the type
    object PyDescr_NewMethod(type cls, PyMethodDef *method)


def own_methods(cls):
    """Give `cls` the methods that it inherits from extension types of ours; returns `cls`."""
    cdef PyMethodDef *method
    inherited = {}
    for base in reversed(cls.__mro__):
        inherited.update(vars(base))
    for name, value in inherited.items():
        if type(value) is MethodDescriptorType and not name.startswith("__"):
            method = (<PyMethodDescrObject *> value).d_method
            setattr(cls, name, PyDescr_NewMethod(<type> cls, method))
    return cls
