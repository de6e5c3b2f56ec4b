"""Which GIDs of a port can be used, in which order, and which fit those of a peer.

Pure functions over tables, without any system call: `device` reads the tables,
`choice` applies these rules to them, the connections use `match`.

G1  An address is used only if it is set at an interface of this network namespace:
    the connection manager binds to it.  A device may be visible in namespaces that
    its interface is not in, and names and indices of interfaces may be the same in
    several namespaces, so the address decides.
G2  Empty entries, and loopback, multicast and unspecified addresses are never used.
G3  RoCE v1, whose packets no router forwards, is used only where a port has no v2.
G4  Link-local addresses come last, and fit only each other.
G5  Two addresses fit if kind and family agree; those in one subnet come first.
"""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

ROCE_V1 = "RoCE v1"
ROCE_V2 = "RoCE v2"
INFINIBAND = "InfiniBand"
IWARP = "iWARP"
KINDS = (INFINIBAND, ROCE_V1, ROCE_V2, IWARP)

#: Most addresses of one process that peers are told.
ADVERTISED = 4

_EMPTY = bytes(16)
_HARDWARE_GID = slice(4, 20)  # of the 20 bytes of an IPoIB interface's hardware address


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address and the length of its network prefix, in bits."""

    text: str
    prefix: int

    @property
    def family(self):
        """4 or 6."""
        return ip_address(self.text).version

    def __str__(self):
        return f"{self.text}/{self.prefix}"


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of this namespace, its hardware address as bytes."""

    name: str
    index: int
    up: bool
    hardware: bytes
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table.

    Attributes
    ----------
    index : int
    raw : bytes
        16 bytes, all zero if the entry is empty.
    kind : str
        One of `KINDS`.
    netdev : str
        Name of its interface; empty if that is not known.
    ifindex : int
        Index of its interface; 0 if that is not known.
    addresses : tuple of Address
        Those by which the entry is reached from this namespace.
    problem : str
        Why there are none; empty if there are.
    """

    index: int
    raw: bytes
    kind: str
    netdev: str = ""
    ifindex: int = 0
    addresses: tuple[Address, ...] = ()
    problem: str = ""

    @property
    def empty(self):
        """Whether the entry holds nothing."""
        return self.raw == _EMPTY

    @property
    def text(self):
        """The GID as an IPv6 address, or as the IPv4 or hardware address that it holds."""
        if self.kind == IWARP:
            return self.raw[:6].hex(":")
        whole = IPv6Address(self.raw)
        return str(whole.ipv4_mapped or whole)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An address that a port can be reached by.

    Attributes
    ----------
    address : str
        Without prefix and without scope.
    family : int
        4 or 6.
    prefix : int
        Length of the network prefix, bits.
    kind : str
        One of `KINDS`.
    gid_index : int
        Entry of the GID table; -1 for an address of a peer.
    netdev : str
        Interface that holds the address.
    scope : int
        Index of that interface if the address is link-local, else 0.
    reason : str
        What it is and why it stands where it does, for people.
    """

    address: str
    family: int
    prefix: int
    kind: str
    gid_index: int = -1
    netdev: str = ""
    scope: int = 0
    reason: str = ""

    def __str__(self):
        return f"{self.address}/{self.prefix}"


# ------------------------------------------------------- where a GID is reached


def locate(gid, interfaces):
    """Find the interface and the addresses of a GID (G1).

    Parameters
    ----------
    gid : Gid
        As the device tells it: with index and name of its interface where they are known.
    interfaces : sequence of Interface
        Those of this network namespace.

    Returns
    -------
    Gid
        With ``netdev``, ``ifindex``, and either ``addresses`` or ``problem``.
    """
    if gid.empty:
        return replace(gid, problem="empty")
    if gid.kind in (ROCE_V1, ROCE_V2):
        return _locate_roce(gid, interfaces)
    found = _by_hardware(gid, interfaces)
    if found is None:
        what = "with this hardware address" if gid.kind == IWARP else "by IPoIB"
        return replace(gid, problem=f"no interface {what} in this network namespace")
    gid = replace(gid, netdev=found.name, ifindex=found.index)
    if not found.up:
        return replace(gid, problem=f"interface {found.name} is down")
    usable = tuple(one for one in found.addresses if not unusable(one.text))
    if not usable:
        return replace(gid, problem=f"interface {found.name} has no IP address")
    return replace(gid, addresses=usable)


def _locate_roce(gid, interfaces):
    """A RoCE GID is its address."""
    problem = unusable(gid.text)
    if problem:
        return replace(gid, problem=problem)
    holders = [
        (interface, address) for interface in interfaces for address in interface.addresses
        if address.text == gid.text and _same_interface(gid, interface)
    ]
    if not holders:
        where = f" at interface {gid.netdev}" if gid.netdev else ""
        return replace(gid, problem=f"not set{where} in this network namespace")
    interface, address = holders[0]
    gid = replace(gid, netdev=interface.name, ifindex=interface.index)
    if not interface.up:
        return replace(gid, problem=f"interface {interface.name} is down")
    return replace(gid, addresses=(address,))


def _same_interface(gid, interface):
    if gid.ifindex and gid.ifindex != interface.index:
        return False
    return not gid.netdev or gid.netdev == interface.name


def _by_hardware(gid, interfaces):
    """The interface of an iWARP or InfiniBand GID: its hardware address holds the GID."""
    for interface in interfaces:
        if gid.kind == IWARP:
            length = len(interface.hardware)
            same = length == 6 and any(gid.raw[:6]) and interface.hardware == gid.raw[:6]
        else:
            same = interface.hardware[_HARDWARE_GID] == gid.raw
        if same:
            return interface
    # Over an interface without hardware address siw makes its GID up.  Any other must have
    # been found above: the index alone may be that of an interface of another namespace (G1).
    for interface in interfaces:
        bare = not any(interface.hardware)
        if gid.kind == IWARP and bare and gid.ifindex and _same_interface(gid, interface):
            return interface
    return None


def unusable(text):
    """Why no connection can use this address (G2); empty if one can."""
    address = ip_address(text)
    if address.is_unspecified:
        return "the unspecified address"
    if address.is_loopback:
        return "a loopback address, which no other host reaches"
    if address.is_multicast:
        return "a multicast address"
    return ""


# ----------------------------------------------------------------- own addresses


def rank(gids):
    """Order the addresses of one active port, best first (G2, G3, G4).

    Parameters
    ----------
    gids : sequence of Gid
        As `locate` returns them, in any order.

    Returns
    -------
    list of Candidate
        One per address; the same address under several entries appears once.
    """
    has_v2 = any(gid.kind == ROCE_V2 and not gid.empty for gid in gids)
    rows = []
    for gid in gids:
        if gid.empty or gid.problem or (gid.kind == ROCE_V1 and has_v2):
            continue
        for address in gid.addresses:
            if not unusable(address.text):
                rows.append((_preference(address), gid.index, gid, address))
    rows.sort(key=lambda row: row[:2])
    best = {}
    for _, _, gid, address in rows:
        best.setdefault(address.text, _candidate(gid, address))
    return list(best.values())


def _preference(address):
    """Sort key: addresses that routers forward first, then IPv4 before IPv6."""
    return (ip_address(address.text).is_link_local, address.family)


def _candidate(gid, address):
    local = ip_address(address.text).is_link_local
    reason = f"{gid.kind}, {describe(address.text)} on {gid.netdev}, GID {gid.index}"
    return Candidate(
        address.text, address.family, address.prefix, gid.kind, gid.index, gid.netdev,
        gid.ifindex if local else 0, reason)


def describe(text):
    """An address in words, such as ``IPv6 link-local``."""
    address = ip_address(text)
    family = f"IPv{address.version}"
    if address.is_link_local:
        return f"{family} link-local"
    if isinstance(address, IPv6Address) and address in ip_network("fc00::/7"):
        return f"{family} unique local"
    if isinstance(address, IPv4Address) and address.is_private:
        return f"{family} private"
    return family


def advertise(candidates, limit=ADVERTISED):
    """The addresses that peers are told: the first ones, but of both families if there are."""
    chosen = list(candidates[:limit])
    families = {one.family for one in chosen}
    for other in candidates[limit:]:
        if other.family not in families and not ip_address(other.address).is_link_local:
            return [*chosen[:-1], other]
    return chosen


# ------------------------------------------------------------- those of a peer


def match(own, peer):
    """Pair own addresses with those of a peer, the most promising pair first (G4, G5).

    Parameters
    ----------
    own, peer : sequence of Candidate
        Each in its owner's order of preference.

    Returns
    -------
    list of (Candidate, Candidate, str)
        Own address, address of the peer, and the reason in words.  Empty if none fit:
        `mismatch` says why.
    """
    same_host = {one.address for one in own} == {one.address for one in peer}
    rows = []
    for mine, left in enumerate(own):
        for theirs, right in enumerate(peer):
            if _obstacle(left, right):
                continue
            if left.address == right.address and not same_host:
                continue  # a bridge or a private network that both hosts have under one address
            distance, reason = _distance(left, right)
            rows.append((distance, mine + theirs, mine, left, right, reason))
    rows.sort(key=lambda row: row[:3])
    return [(left, right, reason) for _, _, _, left, right, reason in rows]


def _obstacle(left, right):
    """Why two addresses do not fit; empty if they do."""
    if left.kind != right.kind:
        return f"{left.kind} here, {right.kind} there"
    if left.family != right.family:
        return f"IPv{left.family} here, IPv{right.family} there"
    if ip_address(left.address).is_link_local != ip_address(right.address).is_link_local:
        return "a link-local address reaches no other one"
    return ""


def _distance(left, right):
    """Sort key of a pair, and the reason in words."""
    kind = left.kind
    if ip_address(left.address).is_link_local:
        return 3, f"{kind}, link-local on {left.netdev}: only if both are on one link"
    if left.address == right.address:
        return 0, f"{kind}, both at {left.address} on this host"
    net = subnet(left, right)
    if net:
        return 1, f"{kind}, both in {net}"
    return 2, f"{kind}, IPv{left.family} through routers: {left} here, {right} there"


def subnet(left, right):
    """The network that both addresses say they are in, or None."""
    length = max(left.prefix, right.prefix)
    here, there = (ip_network(f"{one.address}/{length}", strict=False) for one in (left, right))
    return here if here == there else None


def mismatch(own, peer):
    """Why `match` found nothing, in one sentence for an error."""
    if not own or not peer:
        return f"no usable address {'of the peer' if own else 'here'}"
    if any(not _obstacle(left, right) for left in own for right in peer):
        return f"both hosts have the same address {own[0].address}: give them different ones"
    found = []
    for left in own:
        for right in peer:
            text = _obstacle(left, right)
            if text not in found:
                found.append(text)
    here, there = (", ".join(f"{one} ({one.kind})" for one in side) for side in (own, peer))
    return f"no address here ({here}) fits one of the peer ({there}): {'; '.join(found)}"
