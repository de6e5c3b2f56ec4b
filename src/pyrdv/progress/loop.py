"""Awaiting requests in an asyncio event loop, without polling.

While something is awaited the loop is a *listener* of the engine: any event makes a
descriptor of it readable, the loop calls `Watcher.ready`, which makes progress and
arms again.  Nothing awaited means nothing registered with the loop.

A loop owns its watcher: by the callback that is registered with it, and by
nothing else.  The engine knows loop and watcher by weak references only, so a
loop that is closed, perhaps with waits left over, takes its watcher with it,
and so the listener, which then disarms the engine.
"""

import asyncio
from weakref import ref

from pyrdv.engine.listener import Listener


class Watcher:
    """Drives one engine from one event loop while requests are awaited there.

    Parameters
    ----------
    engine : Engine
    loop : asyncio.AbstractEventLoop
    """

    def __init__(self, engine, loop):
        self.engine = engine
        self.loop = loop
        self.listener = Listener(engine)
        self.waiting = {}
        self.armed = False

    def add(self, request):
        """A future that ends when `request` is complete."""
        future = self.loop.create_future()
        if not self.waiting:
            for fd in self.listener.fds:
                self.loop.add_reader(fd, self.ready)
        self.waiting[future] = request
        if not self.armed:
            self.arm()
        return future

    def discard(self, future):
        """Forget `future`; with the last one the loop is left alone."""
        if self.waiting.pop(future, None) is not None and not self.waiting:
            for fd in self.listener.fds:
                self.loop.remove_reader(fd)
            self.disarm()

    def arm(self):
        """Sleep on the descriptor, unless something happened since the last look."""
        while True:
            epoch = self.engine.epoch
            self.look()
            if not self.waiting:
                return
            if self.listener.arm(epoch):
                self.armed = True
                return
            if not self.engine.turn():
                # Something waits to be posted and cannot be yet: give others a turn.
                self.loop.call_soon(self.ready)
                return

    def disarm(self):
        """Take the arming back."""
        if self.armed:
            self.armed = False
            self.listener.disarm()

    def look(self):
        """Complete the futures of complete requests."""
        for future, request in list(self.waiting.items()):
            if future.done():
                self.discard(future)
                continue
            try:
                if not request.is_complete():
                    request._waited_for()
                complete = request.is_complete()
            except BaseException as error:
                self.discard(future)
                future.set_exception(error)
                continue
            if complete:
                self.discard(future)
                future.set_result(None)

    def ready(self):
        """The descriptor is readable: make progress, then sleep again."""
        if not self.waiting:
            return
        self.disarm()
        if self.engine.notice is not None:
            self.engine.notice()
        self.engine.turn()
        self.arm()


def watcher(engine, loop):
    """The watcher of `engine` in `loop`; made anew if nothing is awaited there."""
    known = engine.watchers.get(loop)
    found = None if known is None else known()
    if found is None:
        found = Watcher(engine, loop)
        engine.watchers[loop] = ref(found)
    return found


async def _complete(engine, request):
    """Wait until `request` is complete.

    No frame that waits keeps the watcher: with the loop's callback it would outlive its loop.
    """
    loop = asyncio.get_running_loop()
    future = watcher(engine, loop).add(request)
    try:
        await future
    finally:
        watcher(engine, loop).discard(future)


def awaited_elsewhere(engine, request):
    """Whether somebody else awaits `request`, in this loop or another."""
    watchers = [known() for known in list(engine.watchers.values())]
    return any(request in list(found.waiting.values()) for found in watchers if found is not None)


async def wait_request(engine, request):
    """Wait for `request` in the running loop; returns what ``request.wait()`` returns.

    A cancelled wait withdraws a receive that was not matched, or a send that was not announced.
    Else the message would be lost, or the peer already has its place: then the message wins.  The
    wait goes on, asleep; it returns the message and the cancellation is dropped.  A request that
    others await, too, is left to them.
    """
    cancellations = []
    while engine is not None and not request.is_complete():
        try:
            await _complete(engine, request)
        except asyncio.CancelledError as error:
            if not request.is_complete() and awaited_elsewhere(engine, request):
                raise
            cancellations.append(error)
            request.Cancel()
    if cancellations and request.was_cancelled:
        request.wait()
        raise cancellations.pop()
    task = asyncio.current_task()
    while cancellations and task is not None:
        cancellations.pop()
        task.uncancel()
    return request.wait()
