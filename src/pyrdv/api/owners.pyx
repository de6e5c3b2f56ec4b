# cython: language_level=3, nonecheck=True
"""Whose memory a message is: the key of the cache of registrations."""
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_GET_BUFFER
from cpython.object cimport PyObject

cimport numpy as cnp

from pyrdv.api.buffers cimport Export, span
from pyrdv.engine.calls cimport engine_lock, engine_unlock
from pyrdv.engine.engine cimport Engine
from pyrdv.memory.mappings cimport cache_name, cache_t, cache_unname, owner_t, range_find

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    # Cython's own declaration cannot say NULL.
    PyObject *array_base "PyArray_BASE" (cnp.ndarray array)


cdef object owning_array(object keeper):
    cdef PyObject *at = <PyObject *> keeper
    while at != NULL:
        if isinstance(<object> at, cnp.ndarray):
            if cnp.PyArray_CHKFLAGS(<cnp.ndarray> at, cnp.NPY_ARRAY_OWNDATA):
                return <object> at
            at = array_base(<cnp.ndarray> at)
        elif PyMemoryView_Check(<object> at):
            at = <PyObject *> PyMemoryView_GET_BUFFER(<object> at).obj
        elif isinstance(<object> at, Export):
            at = <PyObject *> (<Export> at).view.obj
        else:
            return None
    return None


cdef owner_t *find_owner(Engine engine, object keeper, const span *at) noexcept:
    cdef cache_t *cache = engine.registrations.c
    cdef owner_t *found = NULL
    if cache.ranges != NULL:
        engine_lock(&engine.c.lock)
        found = range_find(cache, at.address, at.nbytes)
        engine_unlock(&engine.c.lock)
        if found != NULL:
            return found
    array = owning_array(keeper)
    if array is None:
        return NULL
    try:
        return engine.registrations.owner(
            array, cnp.PyArray_DATA(<cnp.ndarray> array),
            <size_t> cnp.PyArray_NBYTES(<cnp.ndarray> array))
    except MemoryError:
        return NULL


cdef owner_t *named_owner(Engine engine, object keeper, const span *at) noexcept:
    cdef owner_t *owner = owner_of(engine, keeper, at)
    if owner != NULL:
        engine_lock(&engine.c.lock)
        cache_name(owner)
        engine_unlock(&engine.c.lock)
    return owner


cdef void unname(Engine engine, owner_t *owner) noexcept:
    if owner != NULL:
        engine_lock(&engine.c.lock)
        cache_unname(engine.c.cache, owner)
        engine_unlock(&engine.c.lock)
