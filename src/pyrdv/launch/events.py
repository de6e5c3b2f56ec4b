"""The launcher's event loop: descriptors and timers, one thread.

Callbacks must not block, and must not trust an event: descriptors are level-triggered and a number
may have been closed and reused within one turn, so a callback always tries the non-blocking call
and takes "would block" for an answer. (asyncio would cost 60 ms and 10 MiB.)
"""

import select
from time import monotonic

READ = select.POLLIN
WRITE = select.POLLOUT


class Loop:
    """Watches descriptors with poll(2): it needs no descriptor of its own."""

    def __init__(self):
        self._poll = select.poll()
        self._calls = {}
        self._timers = []

    def watch(self, fd, events, call):
        """Call ``call()`` in every turn in which `fd` is ready; replaces an earlier watch."""
        self._poll.register(fd, events)
        self._calls[fd] = call

    def unwatch(self, fd):
        """Forget `fd`; it need not be watched."""
        if self._calls.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds, call):
        """Call ``call()`` once, `seconds` from now; returns a handle for `cancel`."""
        timer = [monotonic() + seconds, call]
        self._timers.append(timer)
        return timer

    def cancel(self, timer):
        """Drop a timer; None and one that already ran are ignored."""
        if timer in self._timers:
            self._timers.remove(timer)

    def turn(self, longest=None):
        """Wait for events at most `longest` seconds (None: without end) and serve them."""
        wait = longest
        if self._timers:
            until = max(0.0, min(timer[0] for timer in self._timers) - monotonic())
            wait = until if wait is None else min(wait, until)
        # Rounded up: a timer must not spin through the last millisecond.
        for fd, _ in self._poll.poll(None if wait is None else int(wait * 1000) + 1):
            call = self._calls.get(fd)
            if call is not None:
                call()
        now = monotonic()
        for timer in [timer for timer in self._timers if timer[0] <= now]:
            # An earlier callback of this turn may have cancelled it.
            if timer in self._timers:
                self._timers.remove(timer)
                timer[1]()
