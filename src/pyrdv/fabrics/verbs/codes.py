"""What the numbers of the verbs interface mean (infiniband/verbs.h)."""

from pyrdv.fabrics.verbs.gids import INFINIBAND, IWARP, ROCE_V1, ROCE_V2

#: Limits of a device that matter to pyrdv, as struct ibv_device_attr names them.
LIMITS = ("max_qp", "max_qp_wr", "max_sge", "max_sge_rd", "max_cq", "max_cqe", "max_mr",
          "max_mr_size", "max_pd", "max_qp_rd_atom", "max_qp_init_rd_atom")

_STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
_KINDS = (INFINIBAND, ROCE_V1, ROCE_V2)
_ETHERNET = 2
_LANES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_LANE_GBIT = {1: 2.5, 2: 5.0, 4: 10.0, 8: 10.0, 16: 14.0, 32: 25.0, 64: 50.0, 128: 100.0}


def transport(code):
    """``iWARP`` or ``IB`` of an enum ibv_transport_type."""
    return "iWARP" if code == 1 else "IB"


def state(code):
    """Name of an enum ibv_port_state."""
    return _STATES[code] if 0 <= code < len(_STATES) else f"state {code}"


def mtu(code):
    """Bytes of an enum ibv_mtu; 0 for an unknown one."""
    return 128 << code if 1 <= code <= 5 else 0


def link_layer(code):
    """``Ethernet`` or ``InfiniBand``; unspecified is from before there was another one."""
    return "Ethernet" if code == _ETHERNET else "InfiniBand"


def gbit(width, speed):
    """Rate in Gbit/s of the codes of a port's active width and speed; 0 if unknown."""
    return _LANES.get(width, 0) * _LANE_GBIT.get(speed, 0.0)


def kind(code, transport):
    """Kind of a GID from the gid_type of its entry and the device's transport."""
    if transport == "iWARP":
        return IWARP
    return _KINDS[code] if 0 <= code < len(_KINDS) else f"GID type {code}"
