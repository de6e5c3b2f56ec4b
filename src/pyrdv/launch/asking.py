"""SIGUSR2 asks a rank what it waits for.

Its default would end the process.  A program that has an action of its own for the signal keeps it.
The handler is Python's, so it runs in the main thread between two instructions, or while a wait
looks around: never while the engine's lock is held.
"""

import os
import signal
import threading


def listen(world):
    """Have SIGUSR2 call ``world.tell()``, in a job, unless the program has another use for it.

    Parameters
    ----------
    world : World
        Has `launch`, `pid` and ``tell()``.
    """
    if world.launch.size == 1 or threading.current_thread() is not threading.main_thread() \
            or signal.getsignal(signal.SIGUSR2) != signal.SIG_DFL:
        return

    def answer(number, frame):
        if os.getpid() == world.pid:
            world.tell()
        else:
            # A forked child is no rank: it ends, as it would without us.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGUSR2, answer)
