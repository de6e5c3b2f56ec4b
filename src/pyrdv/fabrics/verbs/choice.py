"""Which device, port and addresses a process uses: a pure function over the devices read.

C1  What the user names is used or refused with a text; nothing else is taken instead.
C2  Otherwise: a port that is active and has a usable address; real devices before
    soft ones, then the faster, then by name and number.
C3  Every text names what is there and what to do.
"""

from dataclasses import dataclass, field

from pyrdv.fabrics.verbs.gids import ROCE_V1, ROCE_V2, Candidate, Gid, advertise, rank

ACTIVE = "ACTIVE"

#: Drivers without hardware, by the vendor number that they report.
SOFT_VENDORS = {0xFFFFFF: "soft RoCE (rxe)", 0x626D74: "soft iWARP (siw)"}

NO_DEVICE = (
    "there is no RDMA device. Load the driver of the adapter, or make a soft one: "
    "`rdma link add rxe0 type rxe netdev eth0` (as root, with the name of an interface; module "
    "rdma_rxe, command of the package iproute2). Several kernels refuse the interface lo")
PORT_REMEDY = ("Connect the cable, or bring the port's interface up (`rdma link` shows both, "
               "`ip link set DEV up`)")
ADDRESS_REMEDY = ("Give the port's interface an IP address (`ip addr add 10.0.0.1/24 dev DEV`), or "
                  "run in the network namespace that holds the interface")
IPOIB_REMEDY = ("Connections are made by IP address: load the module ib_ipoib, and give its "
                "interface one (`ip addr add 10.0.0.1/24 dev ib0`)")
DETAILS = "`pyrdv doctor` shows all devices, ports and GIDs"


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a device.

    Attributes
    ----------
    number : int
        From 1.
    state : str
        ``ACTIVE``, ``DOWN``, ``INIT``, ...
    link_layer : str
        ``Ethernet`` or ``InfiniBand``.
    mtu, max_mtu : int
        Active and largest path MTU, bytes.
    max_msg_sz : int
        Largest message, bytes.
    gbit : float
        Rate in Gbit/s as the port reports it; soft devices make it up.
    gids : tuple of Gid
        As `gids.locate` returns them.
    """

    number: int
    state: str
    link_layer: str
    mtu: int = 0
    max_mtu: int = 0
    max_msg_sz: int = 0
    gbit: float = 0.0
    gids: tuple[Gid, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One RDMA device.

    Attributes
    ----------
    name : str
    transport : str
        ``IB`` (InfiniBand and RoCE) or ``iWARP``.
    ports : tuple of Port
    limits : dict of str to int
        What the device reports: ``max_qp``, ``max_qp_wr``, ``max_cqe``, ``max_mr``, ...
    vendor : int
        Vendor number.
    firmware : str
    problem : str
        Why the device could not be opened; empty if it could.
    """

    name: str
    transport: str
    ports: tuple[Port, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    vendor: int = 0
    firmware: str = ""
    problem: str = ""

    @property
    def soft(self):
        """Name of the driver if it has no hardware below it; else empty."""
        return SOFT_VENDORS.get(self.vendor, "")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a process uses.

    Attributes
    ----------
    device : str
    port : int
    transport : str
        ``IB`` or ``iWARP``.
    candidates : tuple of Candidate
        Addresses to listen at and to tell peers, best first; at least one, at most four.
    explanation : tuple of str
        Lines for people: what was chosen, what was not, and why.
    """

    device: str
    port: int
    transport: str
    candidates: tuple[Candidate, ...]
    explanation: tuple[str, ...] = ()

    def __str__(self):
        return f"{self.device}:{self.port}"


def choose(devices, device="", port=0, gid=-1):
    """Choose a device, a port and its addresses.

    Parameters
    ----------
    devices : sequence of Device
    device : str
        Name of a device; empty to choose.
    port : int
        Number of a port, from 1; 0 to choose.
    gid : int
        Index of a GID; -1 to choose.

    Returns
    -------
    Choice

    Raises
    ------
    ValueError
        If what was named does not exist or is not to be used.
    OSError
        If there is no device, or none can be used.
    """
    if port < 0 or gid < -1:
        raise ValueError(f"port {port}, GID {gid}: a port counts from 1 (0 chooses), a GID from 0 "
                         "(-1 chooses)")
    if not devices:
        raise OSError(NO_DEVICE + (f"; {device!r} was asked for" if device else ""))
    pairs, refused = [], []
    for one in _named(devices, device):
        if one.problem:
            refused.append((f"{one.name}: {one.problem}", ""))
        for place in _ports(one, port, named=bool(device)):
            try:
                found, why, remedy = _candidates(one, place, gid)
            except ValueError as error:
                if device:
                    raise
                found, why, remedy = [], str(error), ""
            if found:
                pairs.append((_merit(one, place), one, place, found))
            else:
                refused.append((f"{one.name} port {place.number}: {why}", remedy))
    if not pairs:
        raise _nothing(devices, device, port, refused)
    pairs.sort(key=lambda row: row[0])
    return _choice(pairs, refused, named=bool(device))


def _named(devices, device):
    if not device:
        return devices
    found = [one for one in devices if one.name == device]
    if not found:
        names = ", ".join(sorted(one.name for one in devices))
        raise ValueError(f"there is no RDMA device {device!r}; there are: {names}. Correct "
                         f"PYRDV_RDMA_DEVICE, or unset it to have one chosen; {DETAILS}")
    return found


def _ports(device, port, named):
    if not port or device.problem:
        return device.ports
    found = [one for one in device.ports if one.number == port]
    if not found and named:
        raise ValueError(f"device {device.name} has no port {port}: its ports are "
                         f"{', '.join(str(one.number) for one in device.ports)}")
    return found


def _candidates(device, port, gid):
    """Addresses of a port; if there are none, why, and the remedy."""
    if port.state != ACTIVE:
        return [], f"the port is {port.state}", PORT_REMEDY
    if gid >= 0:
        return _one_gid(device, port, gid), "", ""
    found = rank(port.gids)
    return (found, "", "") if found else ([], *_no_address(port))


def _one_gid(device, port, index):
    """The address of the GID that the user named."""
    where = f"GID {index} of {device.name} port {port.number}"
    chosen = next((one for one in port.gids if one.index == index and not one.empty), None)
    if chosen is None:
        there = ", ".join(str(one.index) for one in port.gids if not one.empty) or "none"
        raise ValueError(f"{where} is empty; those that hold something: {there}. Correct "
                         f"PYRDV_RDMA_GID, or unset it to have one chosen; {DETAILS}")
    if chosen.problem:
        raise ValueError(f"{where} ({chosen.text}) cannot be used: {chosen.problem}; {DETAILS}")
    if chosen.kind == ROCE_V1:
        twin = next((one for one in port.gids
                     if one.raw == chosen.raw and one.kind == ROCE_V2), None)
        if twin is not None:
            raise ValueError(f"{where} is RoCE v1, whose packets no router forwards; give "
                             f"{twin.index}, the same address by RoCE v2")
    return rank([chosen])


def _no_address(port):
    """Why an active port has no candidate, and the remedy."""
    if port.link_layer == "InfiniBand" and not any(one.addresses for one in port.gids):
        return "an InfiniBand port without IP address", IPOIB_REMEDY
    reasons = {}
    for one in port.gids:
        if one.problem and not one.empty:
            reasons.setdefault(one.problem, []).append(one.text)
    told = "; ".join(f"{', '.join(texts)}: {why}" for why, texts in reasons.items())
    return f"no usable address ({told or 'its GID table is empty'})", ADDRESS_REMEDY


def _merit(device, port):
    return (bool(device.soft), -port.gbit, device.name, port.number)


def _nothing(devices, device, port, refused):
    what = "no RDMA device can be used" if not device else f"RDMA device {device} cannot be used"
    if port and not refused:
        names = ", ".join(f"{one.name} ({len(one.ports)})" for one in devices)
        return ValueError(f"no RDMA device has a port {port}: devices and their number of ports "
                          f"are {names}")
    told = "; ".join(text for text, _ in refused)
    remedies = "".join(f"{remedy}. " for remedy in dict.fromkeys(r for _, r in refused) if remedy)
    return OSError(f"{what}. {told}. {remedies}{DETAILS}")


def _choice(pairs, refused, named):
    _, device, port, found = pairs[0]
    candidates = tuple(advertise(found))
    lines = [f"{device.name} port {port.number}: chosen"
             + (", as PYRDV_RDMA_DEVICE says" if named else _why_first(pairs))]
    lines += [f"  address {one}: {one.reason}" for one in candidates]
    if len(found) > len(candidates):
        left = ", ".join(one.address for one in found if one not in candidates)
        lines.append(f"  not told to peers, who are told {len(candidates)} at most: {left}")
    for one in port.gids:
        note = _note(one, port)
        if note:
            lines.append(f"  GID {one.index} ({one.text}, {one.kind}) not used: {note}")
    lines += [f"{one.name} port {place.number}: usable, not chosen"
              for _, one, place, _ in pairs[1:]]
    lines += [text for text, _ in refused]
    return Choice(device.name, port.number, device.transport, candidates, tuple(lines))


def _why_first(pairs):
    if len(pairs) == 1:
        return ", the only one that can be used"
    (soft, rate, *_), device = pairs[0][:2]
    other_soft, other_rate = pairs[1][0][:2]
    if soft != other_soft:
        return ", before soft devices"
    if rate != other_rate:
        return f", the fastest ({-rate:g} Gbit/s)"
    return ", the first by name; PYRDV_RDMA_DEVICE chooses another"


def _note(gid, port):
    """Why an entry of the chosen port is no candidate; empty if it is one or is empty."""
    if gid.empty:
        return ""
    if gid.problem:
        return gid.problem
    if gid.kind == ROCE_V1 and any(one.kind == ROCE_V2 and not one.empty for one in port.gids):
        return "the port has RoCE v2, which routers forward"
    return ""
