# cython: language_level=3, nonecheck=True
"""Memory of objects that offer only the DLPack protocol (tensors of other libraries).

What must hold:

1. A capsule is consumed once: it is renamed at the moment its structure becomes ours, before
   anything can fail, and from then on the `Tensor` alone calls the deleter, exactly once.
2. Nothing in the structure is believed before it is checked: version, device, shape, strides.

The layouts are those of DLPack's ABI 1.x; the unversioned one is what older producers hand out.
"""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

import numpy as np

from pyrdv.api.datatypes cimport Datatype, from_dtype
from pyrdv.api.datatypes import PREDEFINED
from pyrdv.errors import DatatypeError, InvalidBufferError

cdef Datatype BYTE = PREDEFINED["BYTE"]
cdef Datatype BFLOAT16 = PREDEFINED["BFLOAT16_T"]


cdef struct Device:
    int32_t kind
    int32_t index

cdef struct Element:
    uint8_t code
    uint8_t bits
    uint16_t lanes

cdef struct Strided:                # DLTensor
    void *data
    Device device
    int32_t ndim
    Element element
    int64_t *shape
    int64_t *strides                # in elements; NULL: row-major
    uint64_t byte_offset

cdef struct Plain:                  # DLManagedTensor
    Strided tensor
    void *context
    void (*deleter)(Plain *) noexcept

cdef struct Versioned:              # DLManagedTensorVersioned
    uint32_t major
    uint32_t minor
    void *context
    void (*deleter)(Versioned *) noexcept
    uint64_t flags
    Strided tensor

cdef extern from *:
    const Py_ssize_t PY_SSIZE_T_LIMIT "PY_SSIZE_T_MAX"

cdef enum:
    READ_ONLY = 1
    IS_COPIED = 2

# Memory that the CPU reads and writes: plain, and page-locked for CUDA and for ROCm.
cdef tuple HOST_KINDS = (1, 3, 11)

cdef tuple DEVICE_NAMES = (
    "", "CPU", "CUDA", "CUDA host", "OpenCL", "", "", "Vulkan", "Metal", "VPI", "ROCm",
    "ROCm host", "", "CUDA managed", "oneAPI", "WebGPU", "Hexagon",
)

# NumPy's kind for DLPack's element codes; bfloat16 and bool have one spelling each.
cdef dict KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}


@cython.no_gc
cdef class Tensor:
    """A borrowed DLPack tensor; its end gives the memory back to the producer."""

    def __dealloc__(self):
        if self.managed is NULL:
            return
        if self.versioned:
            if (<Versioned *>self.managed).deleter is not NULL:
                (<Versioned *>self.managed).deleter(<Versioned *>self.managed)
        elif (<Plain *>self.managed).deleter is not NULL:
            (<Plain *>self.managed).deleter(<Plain *>self.managed)


cdef bint offers(object obj):
    return hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__")


cdef object refuse_device(object obj, int kind):
    name = DEVICE_NAMES[kind] if 0 <= kind < len(DEVICE_NAMES) else ""
    return InvalidBufferError(
        f"{type(obj).__name__} lies in the memory of device type {kind}"
        f"{f' ({name})' if name else ''}, which the CPU cannot reach; copy it to the host first"
    )


cdef object capsule_of(object obj):
    kind = obj.__dlpack_device__()[0]
    if kind not in HOST_KINDS:
        raise refuse_device(obj, kind)
    try:
        return obj.__dlpack__(max_version=(1, 0))
    except TypeError:               # a producer from before DLPack 1.0 knows no such argument
        return obj.__dlpack__()


cdef Tensor borrow(object obj, bint writable):
    cdef Tensor made = Tensor.__new__(Tensor)
    cdef Versioned *versioned
    cdef Strided *tensor
    cdef object capsule = capsule_of(obj)
    made.capsule = capsule
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        made.versioned = True
        made.managed = PyCapsule_GetPointer(capsule, "dltensor_versioned")
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        versioned = <Versioned *>made.managed
        if versioned.major != 1:
            raise InvalidBufferError(
                f"{type(obj).__name__} exports DLPack {versioned.major}.{versioned.minor}; "
                "only version 1 and the unversioned form are understood"
            )
        if writable and versioned.flags & READ_ONLY:
            raise InvalidBufferError(
                f"{type(obj).__name__} exports its memory through DLPack as read-only, but a "
                "receive needs a writable buffer; receive into a copy"
            )
        if writable and versioned.flags & IS_COPIED:
            raise InvalidBufferError(
                f"{type(obj).__name__} exports a copy of its memory through DLPack, so received "
                "data would be lost; receive into a numpy array and copy from there"
            )
        tensor = &versioned.tensor
    elif PyCapsule_IsValid(capsule, "dltensor"):
        made.managed = PyCapsule_GetPointer(capsule, "dltensor")
        PyCapsule_SetName(capsule, "used_dltensor")
        tensor = &(<Plain *>made.managed).tensor
    else:
        raise InvalidBufferError(
            f"{type(obj).__name__}.__dlpack__() gave {capsule!r}, which is no unused DLPack capsule"
        )
    if tensor.device.kind not in HOST_KINDS:
        raise refuse_device(obj, tensor.device.kind)
    describe(made, tensor, obj)
    return made


cdef int describe(Tensor made, Strided *tensor, object obj) except -1:
    """Check shape, strides and element type; fill address and sizes of `made`."""
    cdef Py_ssize_t count = 1
    cdef int32_t axis
    cdef Py_ssize_t itemsize = (<Py_ssize_t>tensor.element.bits * tensor.element.lanes) // 8
    if itemsize == 0 or (<Py_ssize_t>tensor.element.bits * tensor.element.lanes) % 8:
        raise DatatypeError(
            f"{type(obj).__name__} has elements of {tensor.element.bits} bits x "
            f"{tensor.element.lanes}; only whole bytes can be sent"
        )
    if tensor.ndim < 0 or (tensor.ndim > 0 and tensor.shape is NULL):
        raise InvalidBufferError(f"{type(obj).__name__} exports {tensor.ndim} dimensions")
    for axis in range(tensor.ndim):
        if tensor.shape[axis] < 0:
            raise InvalidBufferError(
                f"{type(obj).__name__} exports the extent {tensor.shape[axis]} in axis {axis}"
            )
        if tensor.shape[axis] == 0:
            count = 0
    for axis in range(tensor.ndim if count else 0):
        if count > PY_SSIZE_T_LIMIT // itemsize // tensor.shape[axis]:
            raise InvalidBufferError(
                f"{type(obj).__name__} exports a shape beyond the address space"
            )
        count *= tensor.shape[axis]
    if count and not contiguous(tensor):
        shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
        raise InvalidBufferError(
            f"{type(obj).__name__} is not contiguous (shape {shape}, strides {strides} elements); "
            "send a contiguous copy"
        )
    if count and tensor.data is NULL:
        raise InvalidBufferError(f"{type(obj).__name__} exports no address for {count} elements")
    made.address = NULL if count == 0 else <char *>tensor.data + tensor.byte_offset
    made.count = count
    made.itemsize = itemsize
    made.nbytes = <size_t>count * <size_t>itemsize
    made.datatype = datatype_of(tensor.element)
    return 0


cdef bint contiguous(Strided *tensor) noexcept:
    """Whether the elements fill one block, row-major or column-major."""
    cdef int64_t row = 1
    cdef int64_t column = 1
    cdef bint is_row = True
    cdef bint is_column = True
    cdef int32_t axis
    cdef int32_t back
    if tensor.strides is NULL:
        return True
    for axis in range(tensor.ndim):
        back = tensor.ndim - 1 - axis
        if tensor.shape[axis] != 1 and tensor.strides[axis] != column:
            is_column = False
        if tensor.shape[back] != 1 and tensor.strides[back] != row:
            is_row = False
        column *= tensor.shape[axis]
        row *= tensor.shape[back]
    return is_row or is_column


cdef Datatype datatype_of(Element element):
    """The MPI datatype of an element; BYTE where MPI and NumPy have none."""
    if element.lanes == 1:
        if element.code == 6 and element.bits == 8:
            return from_dtype(np.dtype("?"))
        if element.code in KINDS:
            try:
                return from_dtype(np.dtype(f"{KINDS[element.code]}{element.bits // 8}"))
            except TypeError:
                pass                # a width that NumPy does not have
        if element.code == 4 and element.bits == 16:
            return BFLOAT16
    return BYTE
