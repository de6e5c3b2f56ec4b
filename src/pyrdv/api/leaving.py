"""What threads see that still wait when the interpreter ends."""

import threading

from pyrdv.errors import FinalizedError


def quiet_daemons():
    """Have threads that wait for messages while the interpreter ends do so without a traceback.

    Only daemon threads are left then.  The interpreter ends them without a word, wherever they
    are; that their wait ends a moment earlier, with an error, is of no use to anybody.
    """
    before = threading.excepthook

    def hook(what):
        if not issubclass(what.exc_type, FinalizedError):
            before(what)

    threading.excepthook = hook
