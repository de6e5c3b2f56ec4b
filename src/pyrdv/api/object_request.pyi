"""Requests of objects: heads and parts on their way."""

from .request import Request

class ObjectSend(Request): ...

class ObjectRecv(Request):
    def help(self) -> None: ...
