"""What a rank tells the others about where it listens, as bytes."""

import struct
from ipaddress import ip_address

from pyrdv.fabrics.verbs.gids import KINDS, Candidate

#: Version of the format below.
VERSION = 1

# A head, then one entry per address.
HEAD = struct.Struct("<BBH")            # version, number of entries, zero
ENTRY = struct.Struct("<BBBx2sxx16s")   # index in KINDS, family, prefix, port, address


def pack_address(candidates, ports):
    """Addresses of one rank as bytes.

    Parameters
    ----------
    candidates : sequence of Candidate
    ports : sequence of bytes
        Port of each, 2 bytes in network order.
    """
    parts = [HEAD.pack(VERSION, len(candidates), 0)]
    parts += [ENTRY.pack(KINDS.index(one.kind), one.family, one.prefix, port,
                         ip_address(one.address).packed)
              for one, port in zip(candidates, ports, strict=True)]
    return b"".join(parts)


def parse_address(rank, text):
    """The reverse of `pack_address`.

    Returns
    -------
    list of Candidate, list of bytes

    Raises
    ------
    ValueError
        If it is damaged, or of another version.
    """
    if len(text) < HEAD.size:
        raise ValueError(f"verbs address of rank {rank} has {len(text)} bytes, at least "
                         f"{HEAD.size} are needed: run the same version on all ranks")
    version, count, zero = HEAD.unpack_from(text)
    if version != VERSION or zero:
        raise ValueError(f"verbs address of rank {rank} is of version {version}, ours is "
                         f"{VERSION}: run the same version on all ranks")
    if len(text) != HEAD.size + count * ENTRY.size:
        raise ValueError(f"verbs address of rank {rank} is damaged: {len(text)} bytes for {count} "
                         "addresses")
    candidates, ports = [], []
    for kind, family, prefix, port, raw in ENTRY.iter_unpack(text[HEAD.size:]):
        if kind >= len(KINDS) or family not in (4, 6) or prefix > (32 if family == 4 else 128):
            raise ValueError(f"verbs address of rank {rank} is damaged: kind {kind}, family "
                             f"{family}, prefix {prefix}")
        packed = raw[:4] if family == 4 else raw
        candidates.append(Candidate(str(ip_address(packed)), family, prefix, KINDS[kind]))
        ports.append(port)
    return candidates, ports
