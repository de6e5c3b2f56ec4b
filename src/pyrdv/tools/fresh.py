"""Arrays whose pages do not exist yet: what an array is before its first touch.

``malloc`` hands out memory that was used before, and it maps pages anew only when it has none. So
`empty` asks it until it does, and looks at the pages instead of trusting it.  They are ordinary
NumPy arrays, which the cache of registrations watches; an `mmap` would never be kept in there.
"""

import ctypes
import mmap
import resource

import numpy as np

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def whole_pages(array):
    """Address and number of the pages that `array` has for itself alone."""
    begin = -(-array.ctypes.data // PAGE) * PAGE
    return begin, max((array.ctypes.data + array.nbytes) // PAGE - begin // PAGE, 0)


def pages(array):
    """How many of the pages that `array` has for itself alone exist."""
    begin, count = whole_pages(array)
    if not count:
        return 0
    known = ctypes.create_string_buffer(count)
    if _libc.mincore(begin, count * PAGE, known):
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(byte & 1 for byte in known.raw)


def empty(nbytes):
    """An array of bytes, none of whose pages exists.

    The pages at its ends, which it shares with others, may: malloc has its notes there.
    """
    used = []
    # What was freed keeps its pages, and would pile up from call to call.
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
    while pages(found := np.empty(nbytes, np.uint8)):
        # Kept until another is found, so that malloc runs out of used memory.
        used.append(found)
    return found


def faults():
    """Page faults of this process so far that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
