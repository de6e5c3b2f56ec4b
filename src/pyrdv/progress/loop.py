"""Awaiting requests in an asyncio event loop, without polling.

While something is awaited the engine is *armed*: any event makes its
descriptor readable, the loop calls `Watcher.ready`, which makes progress and
arms again.  Nothing awaited means nothing registered with the loop.
"""

import asyncio


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
        self.waiting = {}
        self.armed = False

    def add(self, request):
        """A future that ends when `request` is complete."""
        future = self.loop.create_future()
        if not self.waiting:
            self.loop.add_reader(self.engine.wait_fd, self.ready)
        self.waiting[future] = request
        if not self.armed:
            self.arm()
        return future

    def discard(self, future):
        """Forget `future`; with the last one the loop is left alone."""
        if self.waiting.pop(future, None) is not None and not self.waiting:
            self.loop.remove_reader(self.engine.wait_fd)
            self.disarm()

    def arm(self):
        """Sleep on the descriptor, unless something happened since the last look."""
        while True:
            epoch = self.engine.epoch
            self.look()
            if not self.waiting:
                return
            if self.engine.arm(epoch):
                self.armed = True
                return
            if not self.engine.step():
                # Something waits to be posted and cannot be yet: give others a turn.
                self.loop.call_soon(self.ready)
                return

    def disarm(self):
        """Take the arming back."""
        if self.armed:
            self.armed = False
            self.engine.disarm()

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
        self.engine.step()
        self.arm()


def watcher(engine, loop):
    """The watcher of `engine` in `loop`; made on first use."""
    found = engine.watchers.get(loop)
    if found is None:
        found = engine.watchers[loop] = Watcher(engine, loop)
    return found


async def wait_request(engine, request):
    """Wait for `request` in the running loop; returns what ``request.wait()`` returns.

    A cancelled wait withdraws a receive that was not matched.  If it was
    matched already its message would be lost, so then the message wins: the
    wait returns it and the cancellation is dropped.
    """
    if engine is not None and not request.is_complete():
        keeper = watcher(engine, asyncio.get_running_loop())
        future = keeper.add(request)
        try:
            await future
        except asyncio.CancelledError:
            keeper.discard(future)
            request.Cancel()
            if not request.is_complete():
                while not request.is_complete():
                    await asyncio.sleep(0)
            if request.was_cancelled:
                request.wait()
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        finally:
            keeper.discard(future)
    return request.wait()
