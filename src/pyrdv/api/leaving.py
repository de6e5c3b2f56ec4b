"""What threads show that still wait for messages when nobody can send any more."""

import threading

from pyrdv.errors import FinalizedError, PeerLostError

#: How long a daemon thread keeps back the traceback of such a wait, in seconds.  Ranks that end
#: together end within milliseconds of each other; on a busy machine within tens of them.
PATIENCE = 1.0

_leaving = threading.Event()


def quiet_daemons():
    """Have daemon threads that serve messages until the program ends do so without a traceback.

    The wait of such a thread ends with an error when this rank, or the last rank that it can hear
    of, has ended in good order.  If the interpreter ends right after, only daemon threads are left,
    and the error is of no use to anybody.  If the interpreter goes on, the traceback is shown:
    something may wait for that thread.
    """
    before = threading.excepthook

    def hook(what):
        if what.thread is not None and what.thread.daemon and _over(what.exc_value) \
                and _leaving.wait(PATIENCE):
            return
        before(what)

    threading.excepthook = hook


def leave():
    """The interpreter ends: no thread is left but the main one and daemon threads."""
    _leaving.set()


def _over(error):
    return isinstance(error, FinalizedError) or isinstance(error, PeerLostError) and error.finished
