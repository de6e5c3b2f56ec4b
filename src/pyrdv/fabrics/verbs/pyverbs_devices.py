"""Reads devices through pyverbs, rdma-core's own Python binding, where it is importable.

It gives what `device.devices` gives.  For `pyrdv doctor`: two readers that agree are worth
more than one, and it works where pyrdv was built without verbs.
"""

from pyrdv.fabrics.verbs import codes
from pyrdv.fabrics.verbs.choice import Device, Port
from pyrdv.fabrics.verbs.gids import Gid, locate


def importable():
    """Whether pyverbs and the libraries below it are there."""
    try:
        import pyverbs.device  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


def read(interfaces=None):
    """Read every RDMA device.

    Parameters
    ----------
    interfaces : sequence of Interface, optional
        Those of this network namespace; without them GIDs are not located.

    Returns
    -------
    list of Device
        By name.

    Raises
    ------
    OSError
        If the devices cannot be listed.
    """
    import pyverbs.device as binding
    from pyverbs.pyverbs_error import PyverbsError

    try:
        listed = [(one.name.decode(errors="replace"), codes.transport(one.transport_type))
                  for one in binding.get_device_list()]
    except PyverbsError as error:
        raise OSError(f"pyverbs cannot list the devices: {error}") from None
    found = []
    for name, transport in listed:
        try:
            found.append(_device(binding, name, transport, interfaces))
        except PyverbsError as error:
            found.append(Device(name, transport, problem=f"it cannot be read: {error}"))
    return sorted(found, key=lambda one: one.name)


def _device(binding, name, transport, interfaces):
    with binding.Context(name=name) as context:
        attr = context.query_device()
        ports = [(number, context.query_port(number))
                 for number in range(1, attr.phys_port_cnt + 1)]
        table = {}
        room = sum(port.gid_tbl_len for _, port in ports)
        for entry in context.query_gid_table(room) if room else ():
            # The halves are in network order, read as numbers of this machine.
            raw = b"".join(half.to_bytes(8, "little") for half in
                           (entry.gid_subnet_prefix, entry.gid_interface_id))
            gid = Gid(entry.gid_index, raw, codes.kind(entry.gid_type, transport), "",
                      entry.ndev_ifindex)
            if not gid.empty:
                located = gid if interfaces is None else locate(gid, interfaces)
                table.setdefault(entry.port_num, []).append(located)
    return Device(
        name, transport,
        tuple(_port(number, port, table.get(number, ())) for number, port in ports),
        {limit: getattr(attr, limit) for limit in codes.LIMITS}, attr.vendor_id,
        _text(attr.fw_version))


def _port(number, attr, gids):
    return Port(
        number, codes.state(attr.state), codes.link_layer(attr.link_layer),
        codes.mtu(attr.active_mtu), codes.mtu(attr.max_mtu), attr.max_msg_sz,
        codes.gbit(attr.active_width, attr.active_speed), tuple(gids))


def _text(value):
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
