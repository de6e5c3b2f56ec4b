"""GID tables as the kernel shows them in files, for libraries too old to tell them.

Nothing here needs a privilege or an open device.
"""

from ipaddress import IPv6Address
from pathlib import Path

from pyrdv.fabrics.verbs.gids import INFINIBAND, IWARP, ROCE_V1, ROCE_V2, Gid

ROOT = Path("/sys/class/infiniband")

# What gid_attrs/types says, to the kind.
_TYPES = {"IB/RoCE v1": ROCE_V1, "RoCE v2": ROCE_V2}


def gid_rows(device, ports, transport, root=ROOT):
    """Read the GID tables of a device.

    Parameters
    ----------
    device : str
    ports : int
        Number of its ports.
    transport : str
        ``IB`` or ``iWARP``.
    root : Path, optional
        Folder of the devices.

    Returns
    -------
    list of (int, Gid)
        Port and entry, without those that are empty or cannot be read.
    """
    rows = []
    for port in range(1, ports + 1):
        folder = Path(root, device, "ports", str(port))
        ethernet = _read(folder / "link_layer") == "Ethernet"
        names = [path.name for path in folder.glob("gids/*") if path.name.isdecimal()]
        for index in sorted(map(int, names)):
            text = _read(folder / "gids" / str(index))
            if not text or IPv6Address(text).is_unspecified:
                continue
            kind = IWARP if transport == "iWARP" else INFINIBAND
            if transport != "iWARP" and ethernet:
                kind = _TYPES.get(_read(folder / "gid_attrs" / "types" / str(index)), ROCE_V1)
            netdev = _read(folder / "gid_attrs" / "ndevs" / str(index))
            rows.append((port, Gid(index, IPv6Address(text).packed, kind, netdev)))
    return rows


def _read(path):
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
