"""An explorer of interleavings, the programs that it runs, and the faults that it must find.

Memory that one run gave back holds the data of its messages, which are those of the next run too:
a buffer that is read before it was written would look right.  So the C library fills what is given
back, all but its smallest pieces.
"""

import ctypes

M_PERTURB = -6                  # of mallopt(3)

if not ctypes.CDLL(None).mallopt(M_PERTURB, 0xA5):
    raise RuntimeError("mallopt(M_PERTURB) failed: the explorer needs the GNU C library")
