"""All connections at start with a server thread: what ``connect_all`` is measured against."""

from ...fabrics.verbs.fabric import VerbsFabric

def connect_all_threaded(
    fabric: VerbsFabric, timeout: float, at_once: bool = False
) -> None: ...
