"""A bootstrap server in a thread, and ranks to join it."""

import os
import socket
import threading
import time

from pyrdv.launch import bootstrap, env, server
from pyrdv.launch.events import Loop

SECRET = b"s" * 32


class Bench:
    """A server in a thread, as the launcher runs it."""

    def __init__(self, size, **options):
        self.size = size
        self.said = []
        self.aborts = []
        self.loop = Loop()
        self.server = server.Server(
            self.loop, size, SECRET, "job", lambda *args: self.aborts.append(args),
            self.said.append, **options)
        self.address = self.server.address
        self._todo = []
        self._wake_read, self._wake_write = os.pipe()
        self.loop.watch(self._wake_read, 1, self._wake)
        self._stop = False
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _wake(self):
        os.read(self._wake_read, 100)
        while self._todo:
            self._todo.pop(0)()

    def _serve(self):
        while not self._stop:
            self.loop.turn()

    def call(self, function):
        """Run `function` in the server's thread and wait for it."""
        done = threading.Event()
        self._todo.append(lambda: (function(), done.set()))
        os.write(self._wake_write, b"x")
        assert done.wait(10)

    def stop(self):
        if self._stop:
            return

        def end():
            self._stop = True
            self.server.close()

        self.call(end)
        self.thread.join(10)
        assert not self.thread.is_alive()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def launch(self, rank, secret=SECRET, size=None, job="job"):
        return env.Launch(rank, size or self.size, self.address, secret, job, "test")

    def client(self, rank, **more):
        return bootstrap.Client.connect(self.launch(rank, **more), 20)

    def raw(self):
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=20)


def at_once(*functions):
    """Run functions in threads; returns results or exceptions."""
    results = [None] * len(functions)

    def run(index, function):
        try:
            results[index] = function()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def wait_notices(client, count=1, limit=10.0):
    found = []
    end = time.monotonic() + limit
    while len(found) < count and time.monotonic() < end:
        found += client.notices()
        time.sleep(0.01)
    return found
