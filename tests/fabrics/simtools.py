"""What the tests of the simulated network share."""

from pyrdv.instruments.fabric import BEHIND, FENCE, OK, PACKET, Driver
from pyrdv.instruments.sim.network import Network


def pair(**parameters):
    """A network of two ranks, connected, and a driver on each."""
    network = Network(2, **parameters)
    drivers = [Driver(network.fabric(rank)) for rank in range(2)]
    assert drivers[0].connect(1) == OK
    return network, *drivers


def run(network):
    while network.run_next():
        pass


def packets(events):
    return [event[2] for event in events if event[0] == PACKET]


def kinds(network):
    return [event.kind for event in network.pending()]


def share(driver, size, access, fill=None):
    buffer = bytearray(size)
    if fill is not None:
        buffer[:] = bytes((fill + i) % 251 for i in range(size))
    region = driver.register(buffer, access)
    assert region.length == size
    return buffer, region


def read_then_send(driver, local, address, key, length, ident):
    """Post a READ and a fenced SEND of ``done`` to rank 1 as one chain."""
    return driver.post(1, driver.read_request(local, 0, address, key, length, ident),
                      driver.send_request(b"done", flags=FENCE))


def write_behind(driver, local, remote, length, text, ident=0):
    """Post a WRITE to rank 1 and SEND `text` behind it (F9) as one chain."""
    return driver.post(1, driver.write_request(local, 0, remote.address, remote.key, length, ident),
                      driver.send_request(text, flags=BEHIND))
