"""Faked tables of RDMA devices, as `device.devices` would read them."""

import ipaddress

from pyrdv.fabrics.verbs.choice import Device, Port
from pyrdv.fabrics.verbs.gids import IWARP, ROCE_V2, Address, Candidate, Gid, Interface

MAC = bytes.fromhex("02fc00000001")
EMPTY = bytes(16)
# Vendor numbers of the soft drivers.
RXE = 0xFFFFFF
SIW = 0x626D74


def raw(text):
    """The 16 bytes of the GID of an IP address."""
    address = ipaddress.ip_address(text)
    return bytes(10) + b"\xff\xff" + address.packed if address.version == 4 else address.packed


def interface(name, index, *addresses, up=True, hardware=MAC):
    """An interface; addresses as ``10.0.0.1/24``."""
    parts = [text.split("/") for text in addresses]
    given = tuple(Address(text, int(prefix)) for text, prefix in parts)
    return Interface(name, index, up, hardware, given)


def candidate(text, kind=ROCE_V2, **more):
    """A candidate with the address ``10.0.0.1/24``."""
    address, _, prefix = text.partition("/")
    return Candidate(address, ipaddress.ip_address(address).version, int(prefix), kind, **more)


def gid(index, text, kind=ROCE_V2, netdev="eth0", problem=""):
    """A GID that is placed, or not for the reason `problem`."""
    given = () if problem else (Address(text, 64 if ":" in text else 24),)
    return Gid(index, raw(text), kind, netdev, 4, given, problem)


def port(*gids, number=1, state="ACTIVE", link_layer="Ethernet", gbit=10.0):
    """A port of an adapter."""
    return Port(number, state, link_layer, 4096, 4096, 1 << 31, gbit, gids)


def device(name, *ports, transport="IB", vendor=0x2C9, problem=""):
    """A device; by default a real adapter."""
    return Device(name, transport, ports, {"max_qp": 1000}, vendor, "1.2.3", problem)


RXE0 = device("rxe0", port(gid(0, "fe80::1"), gid(1, "10.0.0.1"), gid(2, "fd00::1")), vendor=RXE)
SIW0 = device("siw0", port(gid(0, "10.0.0.1", IWARP)), transport="iWARP", vendor=SIW)
