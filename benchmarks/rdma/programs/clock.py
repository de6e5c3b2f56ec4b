"""A clock that can be read around every message.

perftest and UCX read the processor's time stamp counter. Where time.perf_counter costs about as
little, it is taken. In a User-Mode Linux it is a system call, 8 us, a third of what is measured;
there the same counter is read by seven bytes of machine code, called through ctypes.
"""

import ctypes
import mmap
import platform
import time

#: rdtsc; shl rdx, 32; or rax, rdx; ret
CODE = bytes.fromhex("0f31" "48c1e220" "4809d0" "c3")
#: Seconds for one reading of perf_counter beyond which the counter is tried.
DEAR = 1e-6


class Clock:
    """`now()` returns ticks as an int; `seconds()` is the length of a tick, as found so far.

    Parameters
    ----------
    dear : float
        Take the time stamp counter if a reading of perf_counter takes more seconds than this.
    """

    def __init__(self, dear=DEAR):
        counter = _counter() if _cost() > dear else None
        self.name = "time stamp counter" if counter else "perf_counter"
        self.now = counter or time.perf_counter_ns
        self._begin = self._both()

    def seconds(self):
        """Return seconds per tick, measured from the making of the clock to now."""
        if self.now is time.perf_counter_ns:
            return 1e-9
        (begin, first), (end, last) = self._begin, self._both()
        return (end - begin) * 1e-9 / (last - first)

    def _both(self):
        """Return (perf_counter_ns, ticks) of one moment: of the try that was disturbed least."""
        tries = []
        for _ in range(20):
            before, true, after = self.now(), time.perf_counter_ns(), self.now()
            tries.append((after - before, true, (before + after) // 2))
        return min(tries)[1:]


def _cost():
    """Return the seconds that one reading of perf_counter takes at best."""
    start = time.perf_counter
    found = []
    for _ in range(50):
        first = start()
        start()
        start()
        found.append((start() - first) / 3)
    return min(found)


def _counter():
    """Return a function that reads the processor's time stamp counter, or None."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
                         prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)
    counter.page = page
    return counter
